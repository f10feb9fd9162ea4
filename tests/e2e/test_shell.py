"""Comfort in a shell: help with examples, completion, quiet, colours, JSON, exit codes, the doctor."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import invariance as package
from invariance.cli import app, completion
from invariance.cli.doctor import EXTRAS
from invariance.cli.help import EXAMPLES, EXIT_CODES, HELP_NAMES, _commands, command, examples
from invariance.cli.options import draw
from invariance.core.artefacts import Figure
from invariance.data import DATA
from invariance.experiments.trackers import TRACKERS
from invariance.exports import EXPORTS
from invariance.methods import METHODS
from invariance.recipes.presets import ALIASES, PRESETS
from invariance.studies import STUDIES

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("invariance")
PARTS = dict(_commands(command(app)))
LEAVES = {words: part for words, part in PARTS.items() if not getattr(part, "commands", None)}
SMALL = ["--set", "data.samples=300", "--set", "recipe.epochs=2"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> Path:
    """An empty folder to work in, and nothing that changes colours or what is printed."""
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "NO_COLOR", "INVARIANCE_QUIET", "INVARIANCE_DEBUG"):
        monkeypatch.setenv(name, "")  # so that it is put back, whatever a command sets
        monkeypatch.delenv(name)
    return tmp_path


@pytest.mark.parametrize("words", PARTS)
def test_help_has_examples_short_and_long_and_no_names_of_types(words, invariance):
    long, short = invariance(*words.split(), "--help"), invariance(*words.split(), "-h")
    assert long == short
    assert long.code == 0
    assert not re.search(r"<(bool|str|int|float|path|list)|x>=", long.out)
    shown = " ".join(long.out.split())
    assert examples(words)
    assert all(f"invariance {example}" in shown for example in examples(words))


@pytest.mark.parametrize(("words", "example"), [(words, each) for words, all_ in EXAMPLES.items() for each in all_])
def test_examples_are_understood(words, example):
    rest = example.removeprefix(words).split()
    context = PARTS[words].make_context(words, rest, help_option_names=HELP_NAMES)  # raises where it is not
    assert not context.args


def test_exit_codes_are_told_and_documented(invariance):
    shown = " ".join(invariance("--help").out.split())
    page = (ROOT / "docs/command-line.md").read_text(encoding="utf-8")
    for code, meaning in EXIT_CODES.items():
        assert f"{code}: {meaning}" in shown
        assert re.search(rf"^\| {code} +\| {re.escape(meaning)} ", page, re.MULTILINE)


def test_exit_codes_are_those_of_the_package():
    """Every code that a command leaves with is documented."""
    codes, named, constants = {0, 1, 2}, set(), {}
    for file in (Path(package.__file__).parent / "cli").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(attr="Exit"), args=[ast.Constant(value=code)]):
                    codes.add(code)
                case ast.Call(func=ast.Attribute(attr="Exit"), args=[ast.Name(id=name)]):
                    named.add(name)
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=code)):
                    constants[name] = code
    assert codes | {constants[name] for name in named} == EXIT_CODES.keys()


@pytest.mark.parametrize(
    ("complete", "names"),
    [
        (completion.methods, [*METHODS.classes, "all"]),
        (completion.data, [*DATA.classes]),
        (completion.recipes, [*PRESETS, *ALIASES]),
        (completion.studies, [*STUDIES.classes, "all"]),
        (completion.trackers, [*TRACKERS.classes]),
        (completion.exports, [*EXPORTS.classes]),
    ],
)
def test_names_are_completed_as_the_catalogues_have_them(complete, names):
    assert complete("") == sorted(names)


def test_names_that_are_joined_are_completed_one_by_one():
    assert completion.methods("erm,irmv") == ["erm,irmv0", "erm,irmv1"]
    assert completion.recipes("two-phase+sa") == ["two-phase+sam"]


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("bash", {"COMP_WORDS": "invariance train two-bit irmv", "COMP_CWORD": "3"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "invariance train two-bit irmv"}),
    ],
)
def test_a_shell_gets_names_without_torch(shell, words):
    code = (
        "import sys\nfrom invariance.cli import main\ntry:\n    main()\nfinally:\n"
        "    assert 'torch' not in sys.modules, 'slow'"
    )
    environ = os.environ | words | {"_INVARIANCE_COMPLETE": f"complete_{shell}"}
    start = [sys.executable, "-c", f"import sys; sys.argv = ['invariance']\n{code}"]
    done = subprocess.run(start, capture_output=True, text=True, check=False, env=environ)
    assert {"irmv0", "irmv1"} <= set(re.findall(r"[\w-]+", done.stdout)), done.stderr
    assert "slow" not in done.stderr


def test_quiet_and_debug_stand_before_a_command_or_after_it(invariance):
    assert invariance("list", "formats", "--quiet", "--debug") == invariance("-q", "--debug", "list", "formats")
    assert (os.environ.pop("INVARIANCE_QUIET"), os.environ.pop("INVARIANCE_DEBUG")) == ("1", "1")


def test_quiet_leaves_the_results(invariance):
    arguments = ["compare", "--data", "two-bit", "--methods", "erm", "--seeds", "1", "--workers", "1", *SMALL]
    quiet = invariance("--quiet", *arguments, "--track", "tensorboard")
    assert quiet.err == ""
    assert "ERM" in quiet.out
    assert list(Path("tracked/tensorboard").iterdir())


def test_no_color_is_respected(monkeypatch, invariance):
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = re.compile(r"\x1b\[[\d;]*3[0-7]")
    assert coloured.search(invariance("list", "recipes", "--help").out)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not coloured.search(invariance("list", "recipes", "--help").out)


@pytest.mark.parametrize("option", ["--json", "--quiet"])
def test_every_command_can_print_json_and_results_only(option):
    assert {words for words, part in LEAVES.items() if option not in {o for p in part.params for o in p.opts}} == set()


def test_the_doctor_says_what_is_here(invariance):
    found = {entry["name"]: entry for entry in invariance("doctor", "--json").json}
    assert found["invariance"]["state"] == package.__version__
    assert found["working folder"]["ok"]
    assert found["extra onnx"]["state"] == "installed"
    assert set(EXTRAS) == {name.removeprefix("extra ") for name in found if name.startswith("extra ")}


def test_the_doctor_says_what_to_do(invariance, monkeypatch, tmp_path):
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path / "nowhere"))
    (file := tmp_path / "file").touch()
    monkeypatch.setenv("INVARIANCE_CACHE", str(file / "cache"))
    done = invariance("doctor")
    assert done.code == 1
    assert re.search(r"^FAILED +INVARIANCE_DATA: .* → set it to the folder of the data$", done.out, re.MULTILINE)
    assert re.search(r"^FAILED +cache: .*cannot be written to → choose another", done.out, re.MULTILINE)


def test_the_doctor_knows_every_extra_of_users():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert EXTRAS.keys() == extras.keys() - {"dev", "docs"}


def test_a_table_goes_from_fit_to_a_file_of_another_program(invariance, tmp_path):
    rows = "".join(f"{i % 7},{'ab'[i % 2]},{'xyz'[i % 3]},{int(i % 7 > 3)}\n" for i in range(90))
    (tmp_path / "t.csv").write_text(f"age,ward,site,sick\n{rows}")
    fitted = invariance(
        *("fit", "t.csv", "--label", "sick", "--environment", "site", "--method", "erm", "--no-report", "--json")
    )
    assert fitted.code == 0, fitted.err
    done = invariance("export", "model", "--json")
    assert done.json["difference"] <= 1e-5
    assert [each["name"] for each in done.json["inputs"]] == ["age", "ward"]
    assert Path("model.onnx").stat().st_size > 0
    told = invariance("export", "model", "--format", "torchscript", "-o", "m.pt")
    assert "takes no text" in told.out
    assert json.loads(Path("model/manifest.json").read_text())["kind"] == "classifier"


def test_a_missing_extra_is_named_in_whole(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for module in [name for name in sys.modules if name.startswith(("matplotlib.", "invariance.report.render.matpl"))]:
        monkeypatch.delitem(sys.modules, module)
    note = "no picture: it needs matplotlib (pip install 'invariance[report]')\n"
    for quiet, said in ((False, (note, "")), (True, ("", note))):  # a quiet command prints for machines
        draw(Figure("f", "a figure", "", ()), Path("a.png"), "curves", quiet=quiet)
        assert capsys.readouterr() == said
