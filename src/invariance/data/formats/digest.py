"""What files hold, as a hash. A file is read again only when the file system says that it was changed.

Hashes are kept in a file of the cache, for all processes, under the path with its size, its times and its inode. The
time of the last change of an inode cannot be set, so a file that was replaced in place is noticed, too.
"""

import hashlib
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from invariance.core.errors import DataError
from invariance.data.formats.downloads import cache_folder

TABLE = "CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, version TEXT, digest BLOB) WITHOUT ROWID"
SETTLED_NS = 2_000_000_000
"""A file that changed this shortly before it was read may change again within the same tick of the clock."""
WAIT_SECONDS = 5.0
Known = dict[str, tuple[str, bytes]]
"""The version of each file and its hash."""
_known: Known = {}


def digest(files: Sequence[Path]) -> str:
    """A hash of what some files hold."""
    found = hashlib.sha256()
    for each in _digests([str(path.absolute()) for path in files]):
        found.update(each)
    return found.hexdigest()


def _digests(paths: Sequence[str]) -> list[bytes]:
    """The hash of every file."""
    versions = {path: _version(path) for path in paths}
    if unknown := _unknown(versions):
        _known.update(_kept(unknown))
    now = time.time_ns()
    made = {path: (versions[path], _hashed(path)) for path in _unknown(versions)}
    settled = {path: each for path, each in made.items() if now - _changed(each[0]) > SETTLED_NS}
    if settled:
        _known.update(settled)
        _keep(settled)
    return [(made.get(path) or _known[path])[1] for path in paths]


def _unknown(versions: Mapping[str, str]) -> list[str]:
    return [path for path, version in versions.items() if _known.get(path, ("",))[0] != version]


def _version(path: str) -> str:
    try:
        stat = Path(path).stat()
    except OSError as error:
        raise DataError(f"cannot read {error.filename}: {error.strerror}") from None
    return f"{stat.st_ctime_ns} {stat.st_mtime_ns} {stat.st_size} {stat.st_ino}"


def _changed(version: str) -> int:
    return int(version.split()[0])


def _hashed(path: str) -> bytes:
    try:
        with Path(path).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").digest()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None


def _kept(paths: Iterable[str]) -> Known:
    """What other processes have read; nothing where their file is missing, damaged or locked."""
    found: Known = {}
    sql = "SELECT version, digest FROM files WHERE path = ?"
    with suppress(OSError, sqlite3.Error, UnicodeError), closing(_opened()) as connection:
        for path in paths:
            if (row := connection.execute(sql, (path,)).fetchone()) and isinstance(row[1], bytes):
                found[path] = (str(row[0]), row[1])
    return found


def _keep(known: Known) -> None:
    rows = [(path, *each) for path, each in known.items()]
    with suppress(OSError, sqlite3.Error, UnicodeError), closing(_opened()) as connection, connection:
        connection.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", rows)


def _opened() -> sqlite3.Connection:
    (folder := cache_folder()).mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(folder / "digests.db", timeout=WAIT_SECONDS)
    connection.execute(TABLE)
    return connection
