"""The SQLite file of a store: made, opened and checked, and its errors as one line."""

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from invariance.core.errors import StoreError

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


def open_or_create(path: Path) -> sqlite3.Connection:
    """A store that is there, or a new one."""
    with explained(path):
        return _checked(sqlite3.connect(path, timeout=60, isolation_level=None), path, create=True)


def open_existing(path: Path) -> sqlite3.Connection:
    """A store that is there; where its file or folder is read-only, it is only read."""
    if not path.is_file():
        raise StoreError(
            f"there is no store {path}; 'invariance compare' or 'reproduce' makes one, or give another with --store"
        )
    if not path.stat().st_size:
        raise StoreError(f"{path} is empty: it is no store of runs; give another file with --store")
    writable = os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK)
    with explained(path):
        opened = sqlite3.connect(path, timeout=60, isolation_level=None) if writable else _read_only(path)
        return _checked(opened, path, create=False)


def _read_only(path: Path) -> sqlite3.Connection:
    """A file beside which nothing can be written. SQLite could not read a log of changes there, so a copy is read."""
    log = path.with_name(f"{path.name}-wal")
    if not (log.is_file() and log.stat().st_size):
        return sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True, isolation_level=None)
    memory = sqlite3.connect(":memory:", isolation_level=None)
    with TemporaryDirectory() as folder:
        copy, _ = (shutil.copyfile(file, Path(folder) / file.name) for file in (path, log))
        with closing(sqlite3.connect(copy)) as source:
            source.backup(memory)
    return memory


def _checked(connection: sqlite3.Connection, path: Path, *, create: bool) -> sqlite3.Connection:
    """The connection, if the file is a store of this version, or is empty and may become one."""
    try:
        _check(connection, path, create=create)
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, path: Path, *, create: bool) -> None:
    connection.execute("BEGIN")  # so that all three are of one moment
    application, schema, tables = (
        connection.execute(sql).fetchone()[0]
        for sql in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    connection.execute("COMMIT")
    if application == 0 and tables == 0 and create:
        _create(connection)
    elif application != APPLICATION:
        raise StoreError(f"{path} is a database of another program; choose another file with --store")
    elif schema != SCHEMA:
        age = "an older" if schema < SCHEMA else "a newer"
        raise StoreError(
            f"{path} was written by {age} version of invariance (schema {schema}, this one reads {SCHEMA}); "
            "export it with that version ('invariance runs export'), or choose another file with --store"
        )


def _create(connection: sqlite3.Connection) -> None:
    for _ in range(100):  # another process may be doing the same at this moment, which SQLite does not wait for
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            time.sleep(0.05)
    with transaction(connection):
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return  # another process was faster
        for statement in TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {SCHEMA}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything inside is written, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """SQLite's errors as one line."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite quotes what a damaged file holds
        raise StoreError(f"{path}: {error}; nothing in it was changed. {_advice(error)}") from None


def _advice(error: Exception) -> str:
    text = "malformed" if isinstance(error, UnicodeDecodeError) else str(error)
    if "full" in text:
        return "Free some space and give the same command again; it goes on where it was."
    if "not a database" in text or "malformed" in text:
        return "It is no store of runs; choose another file with --store."
    if "locked" in text:
        return "Another process has locked it for a minute; try again later."
    return "Can it be read and written? Choose another file with --store."
