"""How commands end: what they say last, with which code, and what is exported of runs that did not end well."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from invariance.cli.ending import Ended
from invariance.cli.follow import Follow
from invariance.experiments.engines.base import Event
from invariance.experiments.run import Run, execute
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store

SMALL = {"data": {"samples": 100}, "recipe": {"epochs": 2, "batch_size": 50}, "evaluation": {"checkpoints": 1}}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> None:
    """An empty folder to work in, and no data."""
    (work := tmp_path / "work").mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path / "none"))


@pytest.fixture(scope="module")
def finished() -> Run:
    return execute(Spec.of("two-bit", "erm", "short", changes=SMALL)).run


@pytest.fixture
def store(finished) -> Path:
    """A run that finished, and one that left the finite numbers."""
    lost = tuple(replace(c, loss=math.inf, risk=math.nan) for c in finished.history)
    with Store(Path("runs.db")) as kept:
        kept.add(finished)
        kept.add(replace(finished, spec=finished.spec.with_seed(1), status="diverged", history=lost, seconds=math.inf))
    return Path("runs.db")


def test_runs_with_infinite_numbers_are_exported_with_the_others(invariance, store):
    for name in ("runs.jsonl", "runs.csv", "runs.parquet"):
        done = invariance("runs", "export", name)
        assert (done.code, done.out) == (0, f"2 runs: {name}\n")
    first, second = (
        json.loads(line, parse_constant=pytest.fail) for line in Path("runs.jsonl").read_text().splitlines()
    )
    lost = next(record for record in (first, second) if record["seed"] == 1)
    assert (lost["status"], lost["seconds"], lost["history"][0]["loss"]) == ("diverged", None, None)
    with Path("runs.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["seed"]: row for row in csv.DictReader(file)}
    assert (rows["1"]["status"], rows["1"]["seconds"], rows["0"]["status"]) == ("diverged", "", "finished")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install pyarrow")
    table = parquet.read_table("runs.parquet").to_pydict()
    assert [table["seconds"][i] for i, seed in enumerate(table["seed"]) if seed == 1] == [None]


def test_a_store_with_infinite_numbers_is_reported(invariance, store):
    assert invariance("report", "--selection", "last").code == 0
    assert "diverged" in Path("report.html").read_text(encoding="utf-8")


def test_a_command_some_of_whose_runs_failed_says_so_last_and_by_its_code(invariance, finished):
    lost = Spec.of("pacs", "erm", "short")
    Path("specs.jsonl").write_text("\n".join(json.dumps(spec.to_json()) for spec in (finished.spec, lost)))
    done = invariance("run", "specs.jsonl", "--workers", "1")
    assert done.code == 3
    assert done.out.endswith("see 'invariance runs list --store runs.db' · 1 failed of 2 runs\n")


def test_places_whose_data_are_missing_are_said_last_and_by_the_code(invariance):
    done = invariance("reproduce", "table-5", "--scale", "smoke", "--only", "PACS")
    assert done.code == 3
    assert done.out.endswith("\nreport: report.html · 9 places wait for data\n")
    quiet = invariance("reproduce", "table-5", "--scale", "smoke", "--only", "PACS", "--json")
    assert (quiet.code, quiet.err) == (3, "9 places wait for data\n")
    json.loads(quiet.out, parse_constant=pytest.fail)


def test_the_page_is_opened_on_request(invariance, monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr("typer.launch", opened.append)
    assert invariance("reproduce", "audit").code == 0
    assert opened == []
    assert invariance("reproduce", "audit", "--open").code == 0
    assert opened == [str(Path("report.html").absolute())]


@pytest.mark.parametrize(
    ("ended", "said", "incomplete"),
    [
        (Ended(45, {"failed": 18, "collapsed": 27}), "18 failed, 27 collapsed of 45 runs", True),
        (Ended(2, {"finished": 1, "missing": 1}), "1 missing of 2 runs", True),
        (Ended(3, {"finished": 2, "collapsed": 1}), "1 collapsed of 3 runs", False),
        (Ended(1, {"finished": 1}, 2), "2 places wait for data", True),
        (Ended(1, {"finished": 1}), "", False),
    ],
)
def test_runs_are_counted_by_how_they_ended(ended, said, incomplete):
    assert (str(ended), ended.incomplete) == (said, incomplete)


def test_the_time_that_is_left_is_told_once_a_run_is_finished(finished):
    specs = [finished.spec.with_seed(seed) for seed in range(3)]
    follow = Follow(specs, 1)
    assert follow.left() == ""
    follow.see(Event("step", specs[0], step=1, steps=2, seconds=60.0))
    assert follow.left() == ""  # how long runs take here is not known yet
    follow.see(Event("done", specs[0], step=2, steps=2, seconds=120.0, status="finished"))
    assert follow.left() == "4.0 min left"
