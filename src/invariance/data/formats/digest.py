"""What files hold, as a hash."""

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from invariance.core.errors import DataError


def digest(files: Sequence[Path]) -> str:
    """A hash of what some files hold, computed once while they do not change."""
    try:
        stats = [path.stat() for path in files]
    except OSError as error:
        raise DataError(f"cannot read {error.filename}: {error.strerror}") from None
    return _digest(tuple(files), tuple((stat.st_ctime_ns, stat.st_size) for stat in stats))


@cache
def _digest(files: tuple[Path, ...], changed: tuple[tuple[int, int], ...]) -> str:
    found = hashlib.sha256()
    for path in files:
        try:
            with path.open("rb") as stream:
                found.update(hashlib.file_digest(stream, "sha256").digest())
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror}") from None
    return found.hexdigest()
