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

TINY = "--set recipe.epochs=1 --set data.samples=40 --set evaluation.checkpoints=1"
FIT = "fit table.csv --label sick --environment site --method erm --no-report -o m2 --overwrite"
FILTERS = ("--status finished", "--status failed", "--method irmv1", "--data two-bit", "--recipe short", "--seed 0")
ROLES = ("--numeric x", "--categorical kind", "--hidden 4", "--threshold 0.4", "--class-weight balanced")
LINES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((f"list {what}" for what in ("methods", "recipes", "data", "models", "formats")), ()),
    "data list": (),
    "data show two-bit": ("--seed 2", "--set data.samples=50", "--set data.samples=9"),
    "runs list --store runs.db": (*FILTERS, "--limit 3", "--limit 1"),
    "runs export o.csv --store runs.db": FILTERS,
    "runs export o.parquet --store runs.db": FILTERS,
    "runs remove --status failed --yes --store runs.db": ("--method irmv1", "--seed 0"),
    f"train two-bit irmv1 {TINY} -o m --overwrite": (
        *("--recipe short", "--recipe full-batch", "--set method.gamma=10", "--set recipe.lr=0.01"),
        *("--device cpu", "--seed 3", "--save-every 1"),
    ),
    f"compare --data two-bit --methods erm {TINY} --store c.db --workers 1 --seeds 1": (
        *("--recipe short", "--first-seed 2", "--selection last", "--selection oracle", "--fresh"),
    ),
    "run specs.jsonl --workers 1 --store d.db": ("--fresh", "--device cpu"),
    FIT: (*ROLES, "--seed 3", "--licence MIT", "--set recipe.lr=0.01", "--test table.csv", "--device cpu"),
    "predict fitted table.csv -o p.csv": ("--id x", "--keep", "--contributions", "--device cpu"),
    "predict fitted t.parquet -o p.parquet": ("--id x", "--keep", "--contributions"),
    "evaluate fitted table.csv": ("--environment site", "--environment kind", "--device cpu"),
    "evaluate run": ("--sampled", "--seed 2", "--device cpu"),
    "calibrate fitted table.csv -o m3 --overwrite": ("--device cpu",),
    "export fitted --format torchscript -o m.pt": (),
    "report --store runs.db -o r.html": ("--title A", "--note B", "--selection last", "--with-collapsed"),
}
"""Command lines that work, each with options that may be added to it, as many as one likes."""
REFUSED = (1, 2)
"""How a command ends that cannot be done, and one that is not understood; 3 is a model that has collapsed."""
WORDS = sorted({word for line in LINES for word in line.split()} | {"-o", "--threshold", "0.5", "--seeds", "show"})


def arguments(examples: Path, folder: Path, rng: random.Random) -> bool:
    """Run a command that works, or one with a few words too many, too few, or others; whether it was refused.

    One that works must not be refused, and with ``--json`` must print JSON.
    """
    shutil.copytree(examples, folder, dirs_exist_ok=True)
    os.chdir(folder)
    line, options = rng.choice(list(LINES.items()))
    chosen = rng.sample(options, rng.randint(0, min(3, len(options))))
    words = " ".join((line, *chosen, rng.choice(("", "--json")))).split()
    works = rng.random() < 0.6
    code, printed = ended(words if works else _other(words, rng))
    if works and code in REFUSED:
        raise AssertionError(f"{' '.join(words)} was refused: {printed[-200:]}")
    if works and "--json" in words:
        json.loads(printed)
    return code in REFUSED


def _other(words: list[str], rng: random.Random) -> list[str]:
    """One to three words removed, added or replaced."""
    words = list(words)
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
    return words


def ended(words: list[str]) -> tuple[int, str]:
    """The exit code of a command, and what it printed: its result, or its error, which must be one line."""
    sys.argv, printed, said = ["invariance", *words], io.StringIO(), io.StringIO()
    with redirect_stdout(printed), redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
            if code == 1 and said.getvalue().count("\n") > 2:
                raise AssertionError(f"{words}: {said.getvalue()[:200]}") from None
            return code, said.getvalue() if code in REFUSED else printed.getvalue()
    return 0, printed.getvalue()


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
