"""Finished runs in one SQLite file: the narrow waist between training and reporting.

A run is written in one transaction under its key, so it is there whole or not at all, and never twice. Several
processes may read and write at once.
"""

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from invariance.core.errors import BadValue, StoreError, UnknownName
from invariance.core.provenance import Provenance, provenance
from invariance.experiments.run import Run

APPLICATION = 0x1A7C0DE
SCHEMA = 1
TABLES = """
CREATE TABLE manifests (id INTEGER PRIMARY KEY, content TEXT NOT NULL UNIQUE);
CREATE TABLE runs (
    key TEXT PRIMARY KEY, trial TEXT NOT NULL,
    data TEXT NOT NULL, method TEXT NOT NULL, recipe TEXT NOT NULL, seed INTEGER NOT NULL, hold_out TEXT,
    status TEXT NOT NULL, reason TEXT NOT NULL, seconds REAL NOT NULL,
    average REAL, worst REAL, gap REAL, finished_at TEXT NOT NULL,
    manifest INTEGER NOT NULL REFERENCES manifests
);
CREATE INDEX runs_by_trial ON runs (trial);
CREATE INDEX runs_by_kind ON runs (data, method, recipe, seed);
CREATE TABLE records (key TEXT PRIMARY KEY REFERENCES runs ON DELETE CASCADE, record TEXT NOT NULL);
"""
"""``runs`` is what is listed and filtered; ``records`` holds all of a run as JSON, apart so that listing stays fast.
``manifests`` holds provenances: the versions and machines that runs were made with."""


class Summary(NamedTuple):
    """A run without its history. Scores are those of its last checkpoint, as shares."""

    key: str
    trial: str
    data: str
    method: str
    recipe: str
    seed: int
    hold_out: str | None
    status: str
    reason: str
    seconds: float
    average: float | None
    worst: float | None
    gap: float | None
    finished_at: str


class Group(NamedTuple):
    """The seeds of one trial; averages are over its finished runs."""

    trial: str
    data: str
    method: str
    recipe: str
    runs: int
    finished: int
    average: float | None
    worst: float | None
    gap: float | None
    seconds: float


class Store:
    """Runs by key. A run that ``failed`` may be tried again and then gives way; every other status is a result."""

    def __init__(self, path: Path, *, must_exist: bool = False) -> None:
        self.path = path
        if must_exist and not path.is_file():
            raise StoreError(
                f"there is no store {path}; 'invariance reproduce' makes one, or give another with --store"
            )
        with self._explained():
            self.connection = sqlite3.connect(path, timeout=60, isolation_level=None)
            try:
                self._open()
                self.connection.execute("PRAGMA foreign_keys = ON")
            except BaseException:
                self.connection.close()
                raise

    def _open(self) -> None:
        self.connection.execute("BEGIN")  # so that all three are of one moment
        application, schema, tables = (
            self._one(sql)[0]
            for sql in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        )
        self.connection.execute("COMMIT")
        if application == 0 and tables == 0:
            self._create()
        elif application != APPLICATION:
            raise StoreError(f"{self.path} is a database of another program; choose another file with --store")
        elif schema != SCHEMA:
            age = "an older" if schema < SCHEMA else "a newer"
            raise StoreError(
                f"{self.path} was written by {age} version of invariance (schema {schema}, this one reads {SCHEMA}); "
                "export it with that version ('invariance runs export'), or choose another file with --store"
            )

    def _create(self) -> None:
        for _ in range(100):  # another process may be doing the same at this moment, which SQLite does not wait for
            try:
                self.connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                time.sleep(0.05)
        with self._transaction():
            if self._one("SELECT count(*) FROM sqlite_master")[0]:
                return  # another process was faster
            for statement in TABLES.split(";"):
                self.connection.execute(statement)
            self.connection.execute(f"PRAGMA application_id = {APPLICATION}")
            self.connection.execute(f"PRAGMA user_version = {SCHEMA}")

    def _one(self, sql: str, *values: Any) -> Any:
        return self.connection.execute(sql, values).fetchone()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """SQLite's errors as one line."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: {error}; nothing in it was changed. {_advice(error)}") from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._explained():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()

    def add(self, run: Run, made_with: Provenance | None = None) -> None:
        """Write a run, made here unless ``made_with`` says otherwise. A result stays; a failure is replaced."""
        spec, test = run.spec, run.history[-1].test if run.history else None
        scores = (test.mean, test.worst, test.gap) if test else (None,) * 3
        now = datetime.now(UTC).isoformat(timespec="seconds")
        row: list[Any] = [spec.key, spec.trial.key, spec.data_name, spec.method, spec.recipe_name, spec.seed]
        row += [spec.hold_out, run.status, run.reason, run.seconds, *scores, now]
        self.restore([Summary(*row)._asdict() | run.to_json() | (made_with or provenance())])

    def restore(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Write runs as :meth:`records` gives them: under their keys, with their dates and provenances."""
        sql = f"INSERT OR IGNORE INTO runs VALUES ({','.join('?' * (len(Summary._fields) + 1))})"  # noqa: S608
        with self._transaction():
            for given in records:
                record = json.dumps({field.name: given[field.name] for field in fields(Run)})
                made_with = json.dumps({name: given[name] for name in provenance()}, sort_keys=True)
                self.connection.execute("DELETE FROM runs WHERE key = ? AND status = 'failed'", (given["key"],))
                self.connection.execute("INSERT OR IGNORE INTO manifests (content) VALUES (?)", (made_with,))
                manifest = self._one("SELECT id FROM manifests WHERE content = ?", made_with)
                if self.connection.execute(sql, [*(given[n] for n in Summary._fields), *manifest]).rowcount:
                    self.connection.execute("INSERT INTO records VALUES (?, ?)", (given["key"], record))

    def done(self) -> set[str]:
        """Keys of all results, failures left out."""
        with self._explained():
            return {key for (key,) in self.connection.execute("SELECT key FROM runs WHERE status != 'failed'")}

    def has(self, key: str) -> bool:
        """Whether a run's result is there."""
        with self._explained():
            return self._one("SELECT 1 FROM runs WHERE key = ? AND status != 'failed'", key) is not None

    def get(self, key: str) -> Run | None:
        """The run of a key, or None."""
        with self._explained():
            row = self._one("SELECT record FROM records WHERE key = ?", key)
        return row and self._run(row[0])

    def find(self, start: str) -> str:
        """The one key that starts like this; where data have changed since, a spec has another one."""
        with self._explained():
            rows = self.connection.execute("SELECT key FROM runs WHERE substr(key, 1, ?) = ?", (len(start), start))
            keys = [key for (key,) in rows.fetchmany(2)]
        if not start or not keys:
            raise UnknownName(f"no run in {self.path} has a key that starts with {start!r}; see 'invariance runs list'")
        if len(keys) > 1:
            raise BadValue(f"several runs have keys that start with {start!r}; give more of it")
        return str(keys[0])

    def trials(self, keys: Iterable[str]) -> dict[str, list[Run]]:
        """All runs of these trials, whatever their seed."""
        found: dict[str, list[Run]] = {key: [] for key in keys}
        sql = "SELECT record FROM runs JOIN records USING (key) WHERE trial = ? ORDER BY seed"
        with self._explained():
            for key, runs in found.items():
                runs += [self._run(record) for (record,) in self.connection.execute(sql, (key,))]
        return found

    def _run(self, record: str) -> Run:
        try:
            return Run.from_json(json.loads(record))
        except (LookupError, TypeError, ValueError, AttributeError) as error:  # InvarianceErrors say it themselves
            if isinstance(error, BadValue | UnknownName):
                raise type(error)(f"{self.path} holds a run that this version cannot read: {error}") from None
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise StoreError(f"{self.path} holds a run that cannot be read ({reason})") from None

    def records(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """Everything there is about some runs, as plain data."""
        where, values = _where(filters)
        sql = (
            f"SELECT {', '.join(f'runs.{name}' for name in Summary._fields)}, content, record FROM runs "  # noqa: S608
            f"JOIN manifests ON manifests.id = manifest JOIN records USING (key) {where} ORDER BY finished_at, key"
        )
        with self._explained():
            for *summary, made_with, record in self.connection.execute(sql, values):
                yield Summary(*summary)._asdict() | json.loads(record) | json.loads(made_with)

    def specs(self, **filters: Any) -> Iterator[tuple[Summary, dict[str, Any]]]:
        """Runs without their histories, with everything that decided them."""
        where, values = _where(filters)
        columns = ", ".join(f"runs.{name}" for name in Summary._fields)
        sql = f"SELECT {columns}, record FROM runs JOIN records USING (key) {where} ORDER BY finished_at, key"  # noqa: S608
        with self._explained():
            for *summary, record in self.connection.execute(sql, values):  # SQLite reads no JSON that holds Infinity
                yield Summary(*summary), json.loads(record)["spec"]

    def summaries(self, **filters: Any) -> list[Summary]:
        """Runs without their histories, newest last; filters compare columns, None is no filter."""
        where, values = _where(filters)
        sql = f"SELECT {', '.join(Summary._fields)} FROM runs {where} ORDER BY finished_at, key"  # noqa: S608
        with self._explained():
            return [Summary(*row) for row in self.connection.execute(sql, values)]

    def groups(self) -> list[Group]:
        """The seeds of every trial as one line."""
        sql = """SELECT trial, data, method, recipe, count(*), sum(status = 'finished'),
            avg(CASE status WHEN 'finished' THEN average END), avg(CASE status WHEN 'finished' THEN worst END),
            avg(CASE status WHEN 'finished' THEN gap END), sum(seconds)
            FROM runs WHERE hold_out IS NULL GROUP BY trial ORDER BY data, recipe, method"""
        with self._explained():
            return [Group(*row) for row in self.connection.execute(sql)]

    def provenances(self) -> list[tuple[dict[str, Any], int]]:
        """What runs were made with, and how many."""
        sql = "SELECT content, count(*) FROM runs JOIN manifests ON manifests.id = manifest GROUP BY manifest"
        with self._explained():
            return [(json.loads(content), count) for content, count in self.connection.execute(sql)]

    def remove(self, keys: Iterable[str]) -> int:
        """Delete runs; returns how many there were."""
        with self._transaction():
            sql = "DELETE FROM runs WHERE key = ?"
            return sum(self.connection.execute(sql, (key,)).rowcount for key in keys)


def work_folder(store: Path) -> Path:
    """Where unfinished runs have their resume states and locks, beside the store."""
    return store.with_name(store.name + "-work")


def _where(filters: dict[str, Any]) -> tuple[str, list[Any]]:
    given = {column: value for column, value in filters.items() if value is not None}
    for column in given.keys() - set(Summary._fields):
        raise UnknownName.of("column of a run", column, Summary._fields)
    conditions = " AND ".join(f"runs.{column} = ?" for column in given)
    return (f"WHERE {conditions}" if given else ""), list(given.values())


def _advice(error: sqlite3.Error) -> str:
    text = str(error)
    if "full" in text:
        return "Free some space and give the same command again; it goes on where it was."
    if "not a database" in text or "malformed" in text:
        return "It is no store of runs; choose another file with --store."
    if "locked" in text:
        return "Another process has locked it for a minute; try again later."
    return "Can it be read and written? Choose another file with --store."
