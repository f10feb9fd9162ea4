"""A store that a disk or another program has damaged: one line that says so, or what is left of it."""

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from invariance.experiments.run import Run
from invariance.experiments.selected_runs import SelectedRuns
from invariance.experiments.store import Store
from invariance.studies.support.spectrum import spectrum

RECORD = Path(__file__).parents[1] / "experiments" / "record.json"


def run(seed: int = 0, **environments: float) -> Run:
    """A stored run, perhaps with other test environments."""
    plain = json.loads(RECORD.read_text(encoding="utf-8"))
    plain["spec"]["seed"] = seed
    if environments:
        plain["history"][-1]["test"]["by_environment"] = environments
    return Run.from_json(plain)


@pytest.fixture(scope="module")
def content(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "runs.db"
    with Store(path) as store:
        for seed in range(4):
            store.add(run(seed))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()


COMMANDS = (("runs", "list"), ("runs", "export", "o.csv"))


def read(invariance, path: Path) -> list[int]:
    """The exit codes of everything that reads a store; an error is one line."""
    codes = []
    for words in COMMANDS:
        done = invariance(*words, "--store", path)
        codes.append(done.code)
        if done.code:
            assert done.code == 1, done.err
            assert done.err.count("\n") == 1, done.err
            assert done.err.strip().isprintable()
    return codes


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in (1, 2, 3))])
def test_a_flipped_bit_ends_in_one_line_or_is_not_noticed(invariance, content, tmp_path, monkeypatch, part):
    monkeypatch.chdir(tmp_path)
    codes = []
    for number in range(25):  # 28 of 99 ended in a traceback
        rng = random.Random(100 * part + number)
        damaged = bytearray(content)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        (tmp_path / "runs.db").write_bytes(damaged)
        codes += read(invariance, tmp_path / "runs.db")
    assert 0 in codes


ODD = (
    "",
    "x",
    -1,
    1.5,
    2**62,
    1e308,
    "\x1b[2J",
    "a" * 3000,
    b"\xff\xfe",
    "NaN",
    "[]",
    "null",
    '{"spec": 3}',
    "[" * 9999,
)
COLUMNS = {
    "runs": ("trial", "data", "method", "recipe", "seed", "hold_out", "status", "reason", "seconds", "average"),
    "records": ("record",),
    "manifests": ("content",),
}


@pytest.mark.parametrize("odd", [ODD[::3], pytest.param(ODD, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize(("table", "column"), [(t, c) for t, columns in COLUMNS.items() for c in columns])
def test_a_row_that_holds_something_else_ends_in_one_line(
    invariance, content, tmp_path, monkeypatch, table, column, odd
):
    monkeypatch.chdir(tmp_path)
    for value in odd:
        (path := tmp_path / "runs.db").write_bytes(content)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = 1", (value,))
        assert set(read(invariance, path)) <= {0, 1}


@pytest.mark.parametrize("words", [("word", "0.1"), ("nan", "inf"), ("", "0.5")])
def test_domains_that_are_called_like_a_beta_are_places_and_not_numbers(words):
    names = [f"β={word}" for word in words]
    rows = {"ERM": SelectedRuns.of([run(**dict.fromkeys(names, 0.5))], "last", with_collapsed=True)}
    assert spectrum("t", rows).places == tuple(names)


def test_betas_are_numbers():
    rows = {"ERM": SelectedRuns.of([run(**{"β=0.1": 0.7, "β=0.9": 0.6})], "last", with_collapsed=True)}
    lines = spectrum("t", rows)
    assert lines.places == ()
    assert lines.curves[0].x == (0.1, 0.9)
