"""What files hold, as a hash."""

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path


def digest(files: Sequence[Path]) -> str:
    """A hash of what some files hold, computed once while they do not change."""
    stats = [path.stat() for path in files]
    return _digest(tuple(files), tuple((stat.st_mtime_ns, stat.st_size) for stat in stats))


@cache
def _digest(files: tuple[Path, ...], changed: tuple[tuple[int, int], ...]) -> str:
    found = hashlib.sha256()
    for path in files:
        with path.open("rb") as stream:
            found.update(hashlib.file_digest(stream, "sha256").digest())
    return found.hexdigest()
