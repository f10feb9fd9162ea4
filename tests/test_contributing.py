"""The guides' examples are true, and every addition that they show is one file."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ADDITIONS = {
    "A method": "src/invariance/methods/risk_range.py",
    "A data set": "src/invariance/data/two_sensors.py",
    "A recipe": "src/invariance/recipes/presets.py",
    "A study": "src/invariance/studies/penalty_weight.py",
    "A scale of a study": "src/invariance/studies/support/scales.py",
    "A report format": "src/invariance/report/formats/json.py",
}
"""By the guide's headings, with the one file that each writes or changes."""
PICKED_UP = {
    "tests/test_contract.py": "64-decay and risk-range or late-erm or late-env-poe",
    "tests/data/test_contract.py": "two-sensors",
    "tests/studies/test_contract.py": "penalty-weight",
    "tests/report/test_formats.py": "json",
    "tests/test_exports.py": "current or RiskRange or TwoSensors",
}
"""Contract tests that find the additions themselves: a part of them, since all run with every addition."""


def examples() -> dict[str, str]:
    """The sections of the guide that add something, by heading."""
    _, *sections = re.split(r"^### ", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(section.split("\n", 1) for section in sections)


def perform(section: str, root: Path) -> None:
    """Do what a section of the guide says: write its code as a file, or as an entry at the top of a dictionary."""
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    if written := re.match(r"\s*Write `(\S+)`:", section):
        assert not (root / written[1]).exists()
        (root / written[1]).write_text(code, encoding="utf-8")
        return
    name, file = re.match(r"\s*Add to `(\w+)` in `(\S+)`", section).groups()
    text = (root / file).read_text(encoding="utf-8")
    opened = re.search(rf"^{name}: .* = \{{\n", text, re.MULTILINE).end()
    (root / file).write_text(text[:opened] + code + text[opened:], encoding="utf-8")


def contents(root: Path) -> dict[str, str]:
    return {str(p.relative_to(root)): sha256(p.read_bytes()).hexdigest() for p in root.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The package, its tests and its tools."""
    root = tmp_path_factory.mktemp("copy")
    for folder in ("src", "tests", "tools"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


@pytest.fixture(scope="module")
def changed(copy) -> dict[str, set[str]]:
    """Files that differ after each addition, all made in the same copy."""
    found = {}
    for heading, section in examples().items():
        before = contents(copy)
        perform(section, copy)
        found[heading] = {name for name, content in contents(copy).items() if before.get(name) != content}
    return found


@pytest.fixture(scope="module")
def run(copy, changed, tmp_path_factory) -> Callable[..., str]:
    """Run Python with the copy that has all additions, in a folder of its own; gives what was printed."""
    work = tmp_path_factory.mktemp("work")
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}

    def python(*arguments: str, folder: Path = work, given: str = "") -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(
            command, env=environment, cwd=folder, input=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    python.folder = work

    return python


COMMANDS = """
import io, json, sys
from contextlib import redirect_stdout, suppress
from invariance.cli import main
printed = []
for sys.argv in json.load(sys.stdin):
    with redirect_stdout(io.StringIO()) as out, suppress(SystemExit):
        main()
    printed.append(out.getvalue())
print(json.dumps(printed))
"""
STORE = ("--store", "glance.db")
SHORT = ("--seeds", "1", "--workers", "1", "--json")
PENALTY = ("--recipe", "short+sam", "--set", "method.gamma=1e4", "--set", "evaluation.checkpoints=1")
USES = {
    "list": ("list", "methods", "--json"),
    "method": (
        "compare",
        "--methods",
        "risk-range",
        "--data",
        "two-bit",
        "--set",
        "data.samples=10000",
        *PENALTY,
        *SHORT,
    ),
    "data set": ("compare", "--methods", "erm,env-poe", "--data", "two-sensors", "--recipe", "late", *SHORT),
    "study": ("reproduce", "penalty-weight", "--scale", "glance", "--workers", "1", *STORE),
    "format": ("report", "penalty-weight", "--format", "json", "-o", "out", *STORE),
}


@pytest.fixture(scope="module")
def printed(run) -> dict[str, str]:
    """What commands say that use the additions, one after another in one process."""
    lines = [["invariance", *arguments] for arguments in USES.values()]
    return dict(zip(USES, json.loads(run("-c", COMMANDS, given=json.dumps(lines))), strict=True))


def test_every_addition_is_one_file(changed):
    assert changed == {heading: {file} for heading, file in ADDITIONS.items()}


def test_an_added_method_finds_the_invariant_optimum_and_is_listed(printed):
    listed = {entry["name"]: entry for entry in json.loads(printed["list"])}
    assert listed["risk-range"]["formula"] == "min_{w,θ} mean_e R^e + γ (max_e R^e − min_e R^e)²"
    (row,) = json.loads(printed["method"])
    assert row["method"] == "risk-range"
    assert row["gap"] < 2  # two-bit's invariant optimum


def test_an_added_data_set_is_trained_on_by_an_added_recipe(printed):
    rows = json.loads(printed["data set"])
    assert {(row["data"], row["recipe"], row["method"]) for row in rows} == {
        ("two-sensors", "late", "erm"),
        ("two-sensors", "late", "env-poe"),
    }
    assert all(row["average"] is not None for row in rows)


def test_an_added_study_is_run_at_an_added_scale_and_reported_in_an_added_format(run, printed):
    figure = json.loads((run.folder / "out" / "penalty-weight.json").read_text(encoding="utf-8"))
    assert figure["provenance"].startswith("scale glance")
    assert [len(panel["curves"]) for panel in figure["panels"]] == [2, 2]
    assert printed["format"] == f"{len(list((run.folder / 'out').iterdir()))} files: out\n"


def test_contract_tests_and_the_generated_stub_pick_additions_up(run, copy):
    run("tools/stub.py", folder=copy)
    wanted = " or ".join(f"({name.rpartition('/')[2]} and ({k}))" for name, k in PICKED_UP.items())
    done = run("-m", "pytest", "-v", "-p", "no:cacheprovider", "-m", "not slow", "-k", wanted, *PICKED_UP, folder=copy)
    assert all(f"{file}::" in done for file in PICKED_UP)
    exported = "test_every_name_is_what_its_module_has_under_that_name"
    assert all(f"{exported}[{name}] PASSED" in done for name in ("RiskRange", "TwoSensors"))


def test_the_python_example_of_the_readme_runs_and_ends_invariant(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code
    (tmp_path / "example.py").write_text("import torch\ntorch.set_num_threads(1)\n" + code[1])
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 10
    assert float(lines[-1].split()[-1]) < 0.1
