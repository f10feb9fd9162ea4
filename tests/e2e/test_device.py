"""``--device`` in every command that computes."""

from pathlib import Path

import pytest

TRAIN = ["train", "two-bit", "erm", "--set", "data.samples=50", "--set", "recipe.epochs=2"]
TABLE = "\n".join(["x,site,y", *(f"{i % 7},{'ab'[i % 2]},{'no' if i % 3 else 'yes'}" for i in range(60))])
COMMANDS = {
    "train": TRAIN,
    "compare": ["compare", "--data", "two-bit", "--methods", "erm", "--seeds", "1"],
    "run": ["run", "specs.jsonl"],
    "tune": ["tune", "two-bit", "rex", "--trials", "1"],
    "fit": ["fit", "table.csv", "--label", "y", "--environment", "site", "-o", "other"],
    "predict": ["predict", "fitted", "table.csv"],
    "evaluate a run": ["evaluate", "trained"],
    "evaluate on a table": ["evaluate", "fitted", "table.csv"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, invariance) -> Path:
    """A table, a model of it, a run and its spec."""
    folder = tmp_path_factory.mktemp("device")
    (folder / "table.csv").write_text(TABLE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        invariance("fit", "table.csv", "--label", "y", "--environment", "site", "--method", "erm", "-o", "fitted")
        run = invariance(*TRAIN, "-o", "trained", "--device", "auto", "--json")
        (folder / "specs.jsonl").write_text(" ".join(run.out.split()) + "\n")
    return folder


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_a_device_that_is_not_there_is_refused_in_one_line(folder, invariance, monkeypatch, command):
    monkeypatch.chdir(folder)
    assert invariance(*command, "--device", "abacus").error.startswith("device 'abacus' is not available")


def test_reproduce_takes_it_too(invariance):
    """Its data may not be here; runs go the same way as those of ``compare``."""
    assert "--device" in invariance("reproduce", "--help").out


def test_auto_predicts_what_the_cpu_predicts(folder, invariance, monkeypatch):
    monkeypatch.chdir(folder)
    for device in ("cpu", "auto"):
        invariance("predict", "fitted", "table.csv", "--device", device, "-o", f"{device}.csv")
    assert Path("cpu.csv").read_text() == Path("auto.csv").read_text()
