"""Command lines that are nearly right, and stores whose rows hold something else."""

import io
import json
import os
import random
import shutil
import sqlite3
import sys
from contextlib import closing, redirect_stderr, redirect_stdout, suppress
from pathlib import Path

from invariance.cli import main
from invariance.experiments.store import Store
from invariance.experiments.stored_runs import StoredRuns
from reliability.mutations import ODD, altered, spoiled

TINY = ("--set", "recipe.epochs=1", "--set", "data.samples=40", "--set", "evaluation.checkpoints=1")
LINES = (
    ("list", "methods", "--json"),
    ("list", "recipes"),
    ("data", "show", "two-bit"),
    ("runs", "list", "--store", "runs.db", "--json"),
    ("runs", "list", "--store", "runs.db", "--status", "finished", "--limit", "3"),
    ("runs", "export", "o.csv", "--store", "runs.db"),
    ("runs", "remove", "--status", "failed", "--store", "runs.db", "--yes"),
    ("train", "two-bit", "irmv1", "--seed", "1", *TINY, "-o", "m", "--overwrite"),
    ("fit", "table.csv", "--label", "sick", "--environment", "site", "--method", "erm", "--epochs", "1", "--no-report"),
    ("predict", "fitted", "table.csv", "-o", "p.csv", "--json"),
    ("evaluate", "fitted", "table.csv", "--json"),
    ("evaluate", "run", "--json"),
    ("calibrate", "fitted", "table.csv"),
)
REFUSED = (1, 2)
"""How a command ends that cannot be done, and one that is not understood; 3 is a model that has collapsed."""
WORDS = sorted({word for line in LINES for word in line} | {"-o", "--threshold", "0.5", "--seeds", "show", "t.parquet"})


def arguments(examples: Path, folder: Path, rng: random.Random) -> bool:
    """Run a command with a few words too many, too few, or others; whether it was refused, by its exit code."""
    shutil.copytree(examples, folder, dirs_exist_ok=True)
    os.chdir(folder)
    words = list(rng.choice(LINES))
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(words) + 1)
        match rng.randrange(4):
            case 0:
                del words[place : place + 1]
            case 1:
                words.insert(place, rng.choice(WORDS))
            case 2:
                words[place : place + 1] = [rng.choice(WORDS)]
            case _:
                words[place : place + 1] = [spoiled(WORDS, rng)]
    sys.argv, said = ["invariance", *words], io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            if end.code == 1 and said.getvalue().count("\n") > 2:
                raise AssertionError(f"{words}: {said.getvalue()[:200]}") from None
            return end.code in REFUSED
    return False


def odd_rows(path: Path, rng: random.Random) -> None:
    """Put other values into a row, or other plain data into its record; SQLite takes anything anywhere."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for _ in range(rng.randint(1, 2)):
            if rng.random() < 0.6:
                table, column = rng.choice((("records", "record"), ("manifests", "content")))
                plain = json.loads(connection.execute(f"SELECT {column} FROM {table}").fetchone()[0])
                value: str | float | bool = json.dumps(altered(plain, rng))
            else:
                columns = [row[1] for row in connection.execute("PRAGMA table_info(runs)")]
                table, column = "runs", rng.choice(columns)
                value = rng.choice([v for v in ODD if isinstance(v, str | float | bool) and v != "\ud800"])
            with _ignored():
                connection.execute(f"UPDATE {table} SET {column} = ?", (value,))


class _ignored:  # noqa: N801 - reads as what it does
    """A row that SQLite itself refuses stays as it was; what was no JSON before stays so too."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, sqlite3.Error)


def read_store(path: Path) -> None:
    """Everything that commands read of a store."""
    with Store(path, must_exist=True) as store:
        summaries = store.summaries()
        list(store.records())
        list(store.specs())
        store.groups()
        store.provenances()
        store.trials(summary.trial for summary in summaries)
        StoredRuns(store)
    with redirect_stdout(io.StringIO()):
        for words in (("list",), ("export", str(path.with_name("o.csv")))):
            sys.argv = ["invariance", "runs", *words, "--store", str(path)]
            with suppress(SystemExit):
                main()
