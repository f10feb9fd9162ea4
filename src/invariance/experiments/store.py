"""Finished runs in one SQLite file: the narrow waist between training and reporting.

A run is written in one transaction under its key, so it is there whole or not at all, and never twice. Several
processes may read and write at once. Runs are listed without torch, whose import takes longer than the listing.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from invariance.core.errors import BadValue, StoreError, UnknownName
from invariance.core.provenance import Provenance, provenance
from invariance.experiments.database import explained, open_existing, open_or_create, transaction

if TYPE_CHECKING:
    from invariance.experiments.run import Run
    from invariance.experiments.spec import Spec


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
        self.connection = open_existing(path) if must_exist else open_or_create(path)
        self._specs: dict[str, Spec] = {}

    def _one(self, sql: str, *values: Any) -> Any:
        return self.connection.execute(sql, values).fetchone()

    def _explained(self) -> AbstractContextManager[None]:
        return explained(self.path)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._explained(), transaction(self.connection):
            yield

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()

    def add(self, run: "Run", made_with: Provenance | None = None) -> None:
        """Write a run, made here unless ``made_with`` says otherwise. A result stays; a failure is replaced."""
        spec, test = run.spec, run.history[-1].test if run.history else None
        scores = (test.mean, test.worst, test.gap) if test else (None,) * 3
        now = datetime.now(UTC).isoformat(timespec="seconds")
        row: list[Any] = [spec.key, spec.trial.key, spec.data_name, spec.method_name, spec.recipe_name, spec.seed]
        row += [spec.hold_out, run.status, run.reason, run.seconds, *scores, now]
        self.restore([Summary(*row)._asdict() | run.to_json() | (made_with or provenance())])

    def restore(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Write runs as :meth:`records` gives them: under their keys, with their dates and provenances."""
        from invariance.experiments.run import Run

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

    def get(self, key: str) -> "Run | None":
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

    def trials(self, keys: Iterable[str]) -> "dict[str, list[Run]]":
        """All runs of these trials, whatever their seed."""
        found: dict[str, list[Run]] = {key: [] for key in keys}
        sql = "SELECT record FROM runs JOIN records USING (key) WHERE trial = ? ORDER BY seed"
        with self._explained():
            for key, runs in found.items():
                runs += [self._run(record) for (record,) in self.connection.execute(sql, (key,))]
        return found

    def _run(self, record: str) -> "Run":
        from invariance.experiments.run import Run

        try:
            plain = self._plain(record)
            return Run.from_json(plain, self._spec(plain["spec"]))
        except (LookupError, TypeError, ValueError, AttributeError) as error:  # InvarianceErrors say it themselves
            if isinstance(error, BadValue | UnknownName):
                raise type(error)(f"{self.path} holds a run that this version cannot read: {error}") from None
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise self._damaged(reason) from None

    def _spec(self, plain: Mapping[str, Any]) -> "Spec":
        """What decided a run. The seeds of a trial share all the rest of it, which is read once."""
        from invariance.experiments.spec import Spec

        shared = json.dumps({**plain, "seed": 0, "hold_out": None})
        if shared not in self._specs:
            self._specs[shared] = Spec.from_json(plain)
        return replace(self._specs[shared], seed=plain["seed"], hold_out=plain["hold_out"])

    def _summary(self, row: Sequence[Any]) -> Summary:
        """A row of the listing; SQLite keeps any kind of value in any column."""
        s = Summary(*row)
        numbers = [value for value in (s.seed, s.seconds, s.average, s.worst, s.gap) if value is not None]
        texts = (s.key, s.trial, s.data, s.method, s.recipe, s.status, s.reason, s.finished_at, s.hold_out or "")
        if not all(isinstance(n, int | float) for n in numbers) or not all(isinstance(t, str) for t in texts):
            raise self._damaged(str(s.key)[:40])
        return s

    def _plain(self, text: str) -> dict[str, Any]:
        """What is kept as JSON."""
        try:
            plain = json.loads(text)
        except (ValueError, TypeError, RecursionError):
            plain = None
        if not isinstance(plain, dict):
            raise self._damaged("no JSON")
        return plain

    def _damaged(self, what: str) -> StoreError:
        return StoreError(f"{self.path} holds a run that cannot be read ({what}); restore the file, or remove the run")

    def records(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """Everything there is about some runs, as plain data."""
        where, values = _where(filters)
        sql = (
            f"SELECT {', '.join(f'runs.{name}' for name in Summary._fields)}, content, record FROM runs "  # noqa: S608
            f"JOIN manifests ON manifests.id = manifest JOIN records USING (key) {where} ORDER BY finished_at, key"
        )
        with self._explained():
            for *row, made_with, record in self.connection.execute(sql, values):
                yield self._summary(row)._asdict() | self._plain(record) | self._plain(made_with)

    def specs(self, **filters: Any) -> Iterator[tuple[Summary, dict[str, Any]]]:
        """Runs without their histories, with everything that decided them."""
        where, values = _where(filters)
        columns = ", ".join(f"runs.{name}" for name in Summary._fields)
        sql = f"SELECT {columns}, record FROM runs JOIN records USING (key) {where} ORDER BY finished_at, key"  # noqa: S608
        with self._explained():
            for *row, record in self.connection.execute(sql, values):  # SQLite reads no JSON that holds Infinity
                spec = self._plain(record).get("spec")
                if not isinstance(spec, dict):
                    raise self._damaged("no spec")
                yield self._summary(row), spec

    def summaries(self, **filters: Any) -> list[Summary]:
        """Runs without their histories, newest last; filters compare columns, None is no filter."""
        where, values = _where(filters)
        sql = f"SELECT {', '.join(Summary._fields)} FROM runs {where} ORDER BY finished_at, key"  # noqa: S608
        with self._explained():
            return [self._summary(row) for row in self.connection.execute(sql, values)]

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
            return [(self._plain(content), count) for content, count in self.connection.execute(sql)]

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
