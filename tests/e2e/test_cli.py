"""The command line as it is used: the installed command in its own process, and ``main`` where many calls are made."""

import json
import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from PIL import Image

from invariance import __version__
from invariance.cli import main
from invariance.core.errors import UnknownName
from invariance.data import DATA
from invariance.experiments.run import execute
from invariance.experiments.spec import Spec, parse_changes
from invariance.experiments.store import Store
from invariance.methods import METHODS
from invariance.models import MODELS
from invariance.recipes.presets import PRESETS
from invariance.report.formats import FORMATS

COMMAND = Path(sys.executable).with_name("invariance")
ROW = {
    *("method", "data", "recipe", "seeds", "first_seed", "selection", "status", "seconds"),
    *("average", "average_std", "worst", "worst_std", "gap", "gap_std"),
}
FAST = ["--set", "data.draws=500", "--set", "recipe.epochs=2"]
TINY = ["--data", "two-bit", "--set", "data.samples=300", "--set", "recipe.epochs=40", "--seeds", "1", "--workers", "1"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> Path:
    """An empty folder to work in, no data but the embedded, and no way to the network."""
    (work := tmp_path / "work").mkdir()
    monkeypatch.chdir(work)
    monkeypatch.delenv("INVARIANCE_DATA", raising=False)
    monkeypatch.setenv("INVARIANCE_CACHE", str(tmp_path / "cache/invariance"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("FORCE_COLOR", "INVARIANCE_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return work


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A store with the runs of some comparisons, made in this process."""
    path = tmp_path_factory.mktemp("made") / "runs.db"
    changes = parse_changes(TINY[3:6:2])
    with Store(path) as store:
        for method, seed in (("erm", 0), ("erm", 5), ("rex", 0), ("grayscale", 0)):
            store.add(execute(Spec.of("two-bit", method, "default", seed, changes)).run)
    return path


@pytest.fixture
def store(made, elsewhere) -> Path:
    """The same, where commands find it."""
    return Path(shutil.copy(made, elsewhere))


@pytest.fixture
def run_folder(invariance) -> Path:
    """A small run that was saved."""
    invariance("train", "two-bit", "erm", "--set", "data.samples=300", "-o", "saved")
    return Path("saved")


# In processes of their own


def test_compare_prints_its_documented_keys_and_nothing_else(installed):
    done = installed("compare", "--methods", "erm,irmv1", "--seeds", "2", "--workers", "1", "--json", *FAST)
    assert done.err == ""
    assert [set(row) for row in done.json] == [ROW, ROW]
    assert [row["method"] for row in done.json] == ["erm", "irmv1"]
    for row in done.json:
        assert (row["data"], row["recipe"], row["seeds"], row["first_seed"]) == ("colored-digits", "default", 2, 0)
        assert row["selection"] == "invariant"
    assert sorted(path.name for path in Path().iterdir()) == ["runs.db", "runs.db-stages"]


def test_a_saved_model_is_evaluated_to_the_scores_it_was_trained_to(invariance):
    trained = invariance("train", "colored-digits", "rex", "--seed", "3", "-o", "rex", "--json", *FAST)
    assert trained.err == ""
    plain = json.loads(trained.out)
    assert trained.code == (0 if plain["status"] == "finished" else 3)
    assert plain["folder"] == "rex"
    evaluated = invariance("evaluate", "rex", "--json").json
    last = plain["history"][-1]["test"]
    assert evaluated["by_environment"] == {name: 100 * value for name, value in last["by_environment"].items()}
    assert evaluated["agree"] == 100 * last["agree"]
    assert evaluated["oppose"] == 100 * last["oppose"]
    assert evaluated["spec"] == plain["spec"]
    assert evaluated["spec"]["seed"] == 3


def test_an_error_of_the_installed_command_is_one_line(installed):
    done = installed("runs", "list", "--store", "none.db")
    assert done.code == 1
    assert done.error.startswith("there is no store none.db")


def test_ctrl_c_while_commands_are_imported_shows_no_traceback():
    code = """
import sys
from importlib.abc import MetaPathFinder
from invariance.__main__ import main

class CtrlC(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "invariance.cli.fit":
            raise KeyboardInterrupt

sys.meta_path.insert(0, CtrlC())
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stopped\n")


@pytest.mark.parametrize("arguments", [["--help"], ["compare", "--help"], ["--version"], ["list", "--help"]])
def test_help_is_given_without_torch(arguments):
    code = f"""
import atexit, sys
from invariance.cli import main
sys.argv = ["invariance", *{arguments}]
atexit.register(lambda: print("torch" in sys.modules, file=sys.stderr))
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "False\n"
    assert done.stdout


# Compare


def test_compare_shows_every_method_and_writes_a_picture(invariance, store):
    done = invariance("compare", "--methods", "erm,rex,grayscale", *TINY)
    assert (done.code, done.err) == (0, "")
    assert all(title in done.out for title in ("ERM", "REx", "GrayScale", "Two-Bit"))
    assert "invariance-compare.png" in done.out
    with Image.open("invariance-compare.png") as picture:
        picture.load()
        assert picture.format == "PNG"
        assert min(picture.size) > 300
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 10


def test_the_picture_goes_where_asked_and_only_there(invariance, store):
    done = invariance("compare", "--methods", "erm", "--picture", "curves.png", "--json", *TINY)
    assert done.json[0]["method"] == "erm"
    assert sorted(path.name for path in Path().iterdir()) == ["curves.png", "runs.db"]


def test_the_picture_is_where_the_command_says_it_is(invariance):
    done = invariance("compare", "--methods", "erm", "--picture", "curves", *TINY)
    if done.code == 0:
        assert [path.name for path in Path().iterdir()] == ["curves"]
    else:
        assert "curves" in done.error


def test_compare_says_what_runs_share_and_fresh_ones_share_nothing(invariance):
    settings = ["--methods", "erm,rex", *TINY, "--set", "recipe.batch_size=100"]
    assert "updates were taken from stages that runs share (1 of 2 runs" in invariance("compare", *settings).err
    fresh = invariance("compare", "--fresh", "--store", "fresh.db", *settings)
    assert "stages" not in fresh.err
    assert not Path("fresh.db-stages").exists()


def test_compare_of_all_is_every_method_the_oracle_last(invariance):
    changes = ["--data", "two-bit", "--set", "data.samples=60", "--set", "recipe.epochs=1", "--seeds", "1"]
    rows = invariance("compare", "--json", "--workers", "1", *changes).json
    assert {row["method"] for row in rows} == METHODS.classes.keys() - {"subset-erm"}  # which is ERM as it stands
    assert rows[-1]["method"] == "grayscale"


def test_one_method_named_twice_is_one_row(invariance, store):
    rows = invariance("compare", "--methods", "erm,ERM, erm", "--json", *TINY).json
    assert [(row["method"], row["seeds"]) for row in rows] == [("erm", 1)]


def test_selection_that_saw_test_data_says_so(invariance, store):
    (row,) = invariance("compare", "--methods", "erm", "--selection", "oracle", "--json", *TINY).json
    assert row["selection"] == "oracle (has seen test data)"
    shown = invariance("compare", "--methods", "erm", "--selection", "oracle", *TINY).out
    assert "has seen test data" in " ".join(shown.split())


def test_leave_one_environment_out_runs_with_three_environments(invariance):
    arguments = ["--selection", "leave-one-environment-out", "--set", "data.betas=[0.1,0.2,0.3]", "--json"]
    (row,) = invariance("compare", "--methods", "rex", *arguments, *TINY).json
    assert row["seeds"] == 1
    assert row["selection"] == "leave-one-environment-out"


def test_seeds_count_from_the_first(invariance, store):
    arguments = ["--methods", "erm", "--json", "--first-seed", "5", *TINY]
    (row,) = invariance("compare", *arguments).json
    assert row["first_seed"] == 5
    assert invariance("compare", *arguments).json[0] | {"seconds": 0} == row | {"seconds": 0}


def test_a_comparison_in_which_every_run_fails_says_so(invariance):
    explode = ["--set", "recipe.lr=1e30", "--set", "recipe.step=sgd"]
    text, plain = (invariance("compare", "--methods", "erm", *form, *TINY, *explode) for form in ([], ["--json"]))
    assert "diverged 1 of 1" in text.out
    assert "diverged 1 of 1" in plain.out
    assert text.err == plain.err == ""
    assert json.loads(plain.out)[0]["average"] is None


# Train and evaluate


def test_a_run_is_saved_under_its_names_and_shown(invariance):
    done = invariance("train", "two-bit", "irmv1", "--seed", "2", "--set", "data.samples=300")
    assert done.err == ""
    assert "runs/two-bit-irmv1-2" in done.out
    assert "IRMv1" in done.out
    shown = invariance("evaluate", "runs/two-bit-irmv1-2")
    assert shown.code == 0
    assert "average" in shown.out


def test_evaluate_has_its_documented_keys_and_can_sample(invariance, run_folder):
    exact = invariance("evaluate", run_folder, "--json").json
    assert set(exact) == {
        *("folder", "spec", "evaluation", "average", "worst", "gap", "agree", "oppose", "by_environment", "intervals")
    }
    first, again, other = (
        invariance("evaluate", run_folder, "--sampled", "--seed", seed, "--json").json for seed in (0, 0, 1)
    )
    assert first == again
    assert first["by_environment"] != other["by_environment"]
    assert first["average"] == pytest.approx(exact["average"], abs=5)


def test_a_run_that_did_not_finish_well_is_saved_and_exits_with_3(invariance):
    changes = ["--set", "data.samples=50", "--set", "recipe.lr=1e30", "--set", "recipe.step=sgd"]
    done = invariance("train", "two-bit", "erm", "--set", "recipe.epochs=20", *changes, "-o", "run")
    assert done.code == 3
    assert "diverged" in done.out
    assert Path("run/manifest.json").is_file()


def test_overwrite_replaces_a_run(invariance, run_folder):
    done = invariance("train", "two-bit", "rex", "--set", "data.samples=300", "-o", run_folder, "--overwrite", "--json")
    assert json.loads(done.out)["spec"]["objective"]["name"] == "rex"
    assert invariance("evaluate", run_folder, "--json").json["spec"]["objective"]["name"] == "rex"


# Lists and data


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("methods", METHODS.classes),
        ("recipes", PRESETS),
        ("data", DATA.classes),
        ("models", MODELS.classes),
        ("formats", FORMATS.classes),
    ],
)
def test_lists_hold_everything(invariance, what, names):
    text = invariance("list", what)
    assert text.code == 0
    assert all(name in text.out for name in names)
    entries = invariance("list", what, "--json").json
    assert [entry["name"] for entry in entries] == list(names)
    assert all(isinstance(entry["fields"], dict) for entry in entries)


def test_methods_are_listed_with_formula_citation_and_differences(invariance):
    text = " ".join(invariance("list", "methods").out.split())
    for cls in METHODS.classes.values():
        for part in (cls.formula, cls.citation, *cls.differs):
            assert " ".join(part.split()) in text


def test_recipes_are_listed_with_their_differences(invariance):
    text = " ".join(invariance("list", "recipes").out.split())
    given = {entry["name"]: entry["differs"] for entry in invariance("list", "recipes", "--json").json}
    for name, preset in PRESETS.items():
        assert given[name] == list(preset.differs)
        assert all(f"differs {i}. {sentence}" in text for i, sentence in enumerate(preset.differs, 1))


def test_data_check_says_what_is_where(invariance, published, monkeypatch):
    entries = invariance("data", "check", "--json").json
    states = {entry["data"]: entry["state"] for entry in entries}
    embedded = {name for name, cls in DATA.classes.items() if not cls.files and cls().availability() is None}
    assert embedded >= {"colored-digits", "two-bit"}
    assert states == {name: "embedded" if name in embedded else "missing" for name in DATA.classes}
    monkeypatch.setenv("INVARIANCE_DATA", str(published))
    entries = invariance("data", "check", "colored-mnist", "--json").json
    assert [entry["state"] for entry in entries] == ["verified"] * 4
    assert all(Path(entry["place"]).is_relative_to(published) for entry in entries)
    assert invariance("data", "check", "colored-mnist").out.count("verified") == 4


def test_data_check_fails_where_a_file_is_corrupt(invariance, monkeypatch):
    Path("data/mnist").mkdir(parents=True)
    Path("data/mnist/t10k-labels-idx1-ubyte.gz").write_bytes(b"not it")
    monkeypatch.setenv("INVARIANCE_DATA", str(Path("data").absolute()))
    done = invariance("data", "check", "colored-mnist", "--json")
    assert done.code == 1
    assert [entry["state"] for entry in json.loads(done.out)] == ["missing", "missing", "missing", "corrupt"]


@pytest.mark.parametrize("name", ["colored-digits", "two-bit"])
def test_data_show_draws_samples(invariance, name):
    done = invariance("data", "show", name, "--json")
    assert done.json["picture"] == f"{name}.png"
    assert done.json["environments"][:2] == ["β=0.1", "β=0.2"]
    with Image.open(f"{name}.png") as picture:
        picture.load()
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 2
    assert "other.png" in invariance("data", "show", name, "-o", "other.png").out
    assert Path("other.png").is_file()


FETCHED = '''
    from typing import ClassVar

    from pydantic.dataclasses import dataclass

    from invariance.data.base import DataSet
    from invariance.data.formats.downloads import File
    from invariance.core.fields import STRICT

    @dataclass(frozen=True, config=STRICT)
    class Fetched(DataSet):
        """A data set of one file."""

        title: ClassVar[str] = "Fetched"
        about: ClassVar[str] = "for tests"
        citation: ClassVar[str] = "none"
        licence: ClassVar[str] = "none"
        files: ClassVar[tuple[File, ...]] = (File("fetched/numbers.bin", "{sha256}", ("{url}",)),)

        def load(self, seed, *, oracle=False):
            raise NotImplementedError
'''


def test_data_fetch_puts_verified_files_into_the_cache(invariance, plugin, tmp_path, monkeypatch):
    (site := tmp_path / "site").mkdir()
    (site / "numbers.bin").write_bytes(content := bytes(range(100)))
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/numbers.bin"
        plugin(
            FETCHED.replace("{sha256}", sha256(content).hexdigest()).replace("{url}", url),
            data=["fetched = another_package:Fetched"],
        )
        assert invariance("data", "check", "fetched", "--json").json[0]["state"] == "missing"
        done = invariance("data", "fetch", "fetched", "--json")
        server.shutdown()
    place = tmp_path / "cache" / "invariance" / "fetched" / "numbers.bin"
    assert done.json == {"fetched/numbers.bin": str(place)}
    assert done.err == ""
    assert place.read_bytes() == content
    assert invariance("data", "check", "fetched", "--json").json[0]["state"] == "verified"
    assert str(place) in invariance("data", "fetch", "fetched").out  # nothing left to do, and no server to ask


def test_version(invariance):
    assert invariance("--version").out == f"invariance {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["list"], ["data"]], ids=str)
def test_a_command_without_its_subcommand_shows_help_and_no_error(invariance, arguments):
    done = invariance(*arguments)
    assert "Usage" in done.out + done.err
    assert "error" not in done.err


def test_debug_shows_where_an_error_came_from(monkeypatch):
    monkeypatch.setenv("INVARIANCE_DEBUG", "")
    monkeypatch.setattr(sys, "argv", ["invariance", "--debug", "compare", "--methods", "irm1"])
    with pytest.raises(UnknownName):
        main()


# Bad input


COMPARE = ["compare", *TINY, "--methods", "irmv1"]
BAD = {
    "unknown command": (["compair"], "No such command 'compair'"),
    "unknown option": (["compare", "--sed", "3"], "--sed"),
    "no seeds": (["compare", "--seeds", "0"], "--seeds"),
    "seeds as text": (["compare", "--seeds", "two"], "--seeds"),
    "negative seed": (["train", "two-bit", "erm", "--seed", "-1"], "--seed"),
    "argument missing": (["train", "two-bit"], "method"),
    "unknown method": ([*COMPARE, "--methods", "erm,blok-irm"], "Did you mean 'bloc-irm'?"),
    "no method": ([*COMPARE, "--methods", ""], "no method is called ''"),
    "unknown data": (["compare", "--data", "colored-minst"], "Did you mean 'colored-mnist'?"),
    "unknown data to train": (["train", "to-bit", "erm"], "Did you mean 'two-bit'?"),
    "unknown data to check": (["data", "check", "two-bits"], "Did you mean 'two-bit'?"),
    "unknown data to fetch": (["data", "fetch", "two-bits"], "Did you mean 'two-bit'?"),
    "unknown data to show": (["data", "show", "two-bits"], "Did you mean 'two-bit'?"),
    "unknown recipe": ([*COMPARE, "--recipe", "short+san"], "Did you mean 'sam'?"),
    "unknown selection": ([*COMPARE, "--selection", "orakle"], "Did you mean 'oracle'?"),
    "unknown field": ([*COMPARE, "--set", "method.gama=1"], "Did you mean 'gamma'?"),
    "unknown section": ([*COMPARE, "--set", "optimiser.lr=1"], "no section of a run is called 'optimiser'"),
    "not a setting": ([*COMPARE, "--set", "gamma"], "write SECTION.FIELD=VALUE"),
    "bad json": ([*COMPARE, "--set", "data.betas=[0.1,"], "betas"),
    "model by number": ([*COMPARE, "--set", "model.name=3"], "model"),
    "kind and its field": ([*COMPARE, "--set", "recipe.step=adam", "--set", "recipe.step.beta1=2"], "step"),
    "negative batch size": ([*COMPARE, "--set", "recipe.batch_size=-1"], "batch_size = -1 cannot be used"),
    "one environment": ([*COMPARE, "--set", "data.betas=[0.1]"], "needs at least 2"),
    "one environment to train": (
        ["train", "two-bit", "rex", "--set", "data.betas=[0.1]"],
        "nothing to be invariant across",
    ),
    "no environment": ([*COMPARE, "--set", "data.betas=[]"], "betas"),
    "one environment twice": ([*COMPARE, "--set", "data.betas=[0.1,0.1]"], "name each once"),
    "batch too small to split": (
        [
            *COMPARE,
            "--methods",
            "birm",
            "--recipe",
            "short",
            "--set",
            "recipe.batch_size=2",
            "--set",
            "recipe.warmup=0",
        ],
        "needs at least two samples of every environment",
    ),
    "two environments to leave one out": ([*COMPARE, "--selection", "leave-one-environment-out"], "at least three"),
    "missing data": (["compare", "--data", "colored-mnist", "--workers", "1"], "put the file at"),
    "missing data to fetch": (["data", "fetch", "colored-fmnist"], "put the file at"),
    "picture in no folder": ([*COMPARE, "--picture", "nowhere/curves.png"], "nowhere"),
    "picture of no format": ([*COMPARE, "--picture", "curves.xyz"], "curves.xyz"),
    "samples in no folder": (["data", "show", "two-bit", "-o", "nowhere/x.png"], "nowhere/x.png"),
    "samples of no format": (["data", "show", "two-bit", "-o", "x.xyz"], "x.xyz"),
    "samples of a model": (["data", "show", "two-bit", "--set", "model.width=3"], "only data are shown"),
    "unknown part of a study": (["reproduce", "table-4", "--only", "IRMv2"], "Did you mean 'irmv1'?"),
    "two parts that no run has": (
        ["reproduce", "table-5", "--only", "PACS", "--only", "CelebA"],
        "no run has PACS and CelebA together",
    ),
    "a rule without its runs": (
        ["reproduce", "table-4", "--selection", "leave-one-environment-out"],
        "studies make none",
    ),
    "no run": (["evaluate", "nowhere"], "nowhere holds no manifest.json"),
    "a folder without a run": (["evaluate", "."], "holds no manifest.json"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_that_says_what(invariance, case):
    arguments, said = BAD[case]
    done = invariance(*arguments)
    assert said in done.error
    assert done.out == ""
    assert not [path for path in Path().glob("*.*") if path.name != "runs.db"]


@pytest.mark.parametrize("command", [["compare", "--workers", "1", "--data"], ["data", "show"]], ids=lambda c: c[0])
def test_a_corrupt_data_file_is_one_line_that_names_it(invariance, monkeypatch, command):
    file = Path("data/mnist/train-images-idx3-ubyte.gz").absolute()
    file.parent.mkdir(parents=True)
    file.write_bytes(b"not it")
    monkeypatch.setenv("INVARIANCE_DATA", str(file.parents[1]))
    error = invariance(*command, "colored-mnist").error
    assert str(file) in error
    assert "invariance data fetch" in error


def test_an_output_that_cannot_be_written_is_refused_before_training(invariance):
    Path("file").touch()
    done = invariance("train", "two-bit", "erm", "-o", "file/run")
    assert done.error.startswith("cannot write to file/run: ")


def test_a_run_is_not_overwritten_unless_asked(invariance, run_folder):
    before = (run_folder / "manifest.json").read_bytes()
    assert "already holds a model" in invariance("train", "two-bit", "rex", "-o", run_folder).error
    assert (run_folder / "manifest.json").read_bytes() == before


def test_a_run_reads_no_files_and_says_what_to_do_instead(invariance, run_folder):
    Path("table.csv").write_text("a,label\n1,0\n")
    for arguments in (["predict", run_folder, "table.csv"], ["evaluate", run_folder, "table.csv"]):
        error = invariance(*arguments).error
        assert error.startswith("saved holds a model of a benchmark")
        assert "invariance evaluate saved" in error


def test_a_damaged_run_is_one_line(invariance, run_folder):
    (run_folder / "weights.safetensors").write_bytes(b"no weights")
    assert "train it again" in invariance("evaluate", run_folder).error


FAULTY = '''
    from typing import ClassVar, Literal

    import torch
    from pydantic.dataclasses import dataclass

    from invariance.core.environment import Benchmark, Environment
    from invariance.data.base import DataSet
    from invariance.core.families import Bernoulli, Categorical, Gaussian
    from invariance.models.mlp import MLP
    from invariance.core.fields import STRICT

    @dataclass(frozen=True, config=STRICT)
    class Faulty(DataSet):
        """Real domains, with a fault on demand."""

        title: ClassVar[str] = "Faulty"
        about: ClassVar[str] = "for tests"
        citation: ClassVar[str] = "none"
        licence: ClassVar[str] = "none"
        architecture: ClassVar[MLP] = MLP(width=4)

        fault: Literal["none", "nan", "infinite", "label", "half", "empty", "unequal", "untested"] = "none"
        family: Literal["bernoulli", "categorical", "gaussian"] = "bernoulli"

        def load(self, seed, *, oracle=False):
            x = torch.linspace(-1, 1, 30).unsqueeze(1)
            y = (x > 0).long().squeeze(1)
            if self.family == "gaussian":
                y = torch.arange(30)
            if self.fault in ("nan", "infinite"):
                x[3] = float(self.fault.replace("infinite", "inf"))
            if self.fault == "label":
                y[3] = 2
            if self.fault == "half":
                y = y / 2
            good = torch.linspace(-1, 1, 20).unsqueeze(1)
            if self.fault == "unequal":
                x = x[1:]
            if self.fault == "empty":
                x, y = x[:0], y[:0]
            train = (Environment("Lyon", good, good[:, 0] > 0), Environment("Oslo", x, y))
            family = {"bernoulli": Bernoulli(), "categorical": Categorical(2), "gaussian": Gaussian()}[self.family]
            return Benchmark(family, train, test=() if self.fault == "untested" else (train[0],))
'''
FAULTS = {
    "nan": "environment 'Oslo': x holds NaN or infinite values",
    "infinite": "environment 'Oslo': x holds NaN or infinite values",
    "label": "environment 'Oslo': label 2 is outside the classes 0 to 1",
    "half": "environment 'Oslo': label 0.5 is outside the classes 0 to 1",
    "empty": "environment 'Oslo' is empty",
    "unequal": "environment 'Oslo': 29 inputs but 30 targets",
    "untested": "there is no environment to score on",
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("family", ["bernoulli", "categorical"])
def test_data_of_another_package_that_cannot_be_used_is_one_line(invariance, plugin, fault, family):
    plugin(FAULTY, data=["faulty = another_package:Faulty"])
    changes = ["--set", f"data.fault={fault}", "--set", f"data.family={family}"]
    assert invariance("train", "faulty", "irmv1", *changes).error.startswith(FAULTS[fault])


def test_data_of_another_package_are_compared(invariance, plugin):
    plugin(FAULTY, data=["faulty = another_package:Faulty"])
    changes = ["--set", "data.family=gaussian", "--set", "recipe.epochs=300", "--set", "recipe.lr=0.05"]
    (row,) = invariance(
        "compare", "--data", "faulty", "--methods", "erm", "--seeds", "1", "--workers", "1", "--json", *changes
    ).json
    assert row["data"] == "faulty"


@pytest.mark.parametrize("family", ["bernoulli", "categorical", "gaussian"])
def test_data_of_another_package_are_trained_on_and_shown(invariance, plugin, family):
    plugin(FAULTY, data=["faulty = another_package:Faulty"])
    changes = ["--set", f"data.family={family}", "--set", "recipe.epochs=300", "--set", "recipe.lr=0.05"]
    assert invariance("train", "faulty", "erm", "-o", "run", *changes).code == 0
    assert invariance("evaluate", "run", "--json").json["by_environment"].keys() == {"Lyon"}
    assert invariance("data", "show", "faulty", "--json").json["environments"] == ["Lyon", "Oslo", "Lyon"]


def test_output_into_a_closed_pipe_ends_quietly():
    done = subprocess.run(
        ["/bin/sh", "-c", f"'{COMMAND}' list methods | head -c 10"],
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert done.stderr == b""
    assert len(done.stdout) == 10
