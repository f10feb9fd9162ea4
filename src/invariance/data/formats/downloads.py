"""Data files: found in ``INVARIANCE_DATA``, else in the user's cache, else fetched; always verified."""

import errno
import hashlib
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from invariance.core.atomic import discard, part_path
from invariance.core.errors import DataError

DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)
"""What a disk answers; a network has other numbers or none."""


@dataclass(frozen=True)
class File:
    """A published file: its place below the data folder, its SHA-256, and where it may be fetched."""

    name: str
    sha256: str
    urls: tuple[str, ...] = ()


def cache_folder() -> Path:
    """Where files are fetched to and prepared images are kept: ``INVARIANCE_CACHE``, else the user's cache."""
    from platformdirs import user_cache_path

    own = os.environ.get("INVARIANCE_CACHE")
    return Path(own) if own else user_cache_path("invariance")


def data_folders() -> list[Path]:
    """Where files are looked for, in this order; the last one is where they are fetched to."""
    own = [Path(os.environ["INVARIANCE_DATA"])] if os.environ.get("INVARIANCE_DATA") else []
    return [*own, cache_folder()]


def data_folder(name: str) -> Path:
    """The data folder of that name."""
    for place in data_folders():
        if (place / name).is_dir():
            return place / name
    places = " or ".join(str(place) for place in data_folders())
    raise DataError(
        f"there is no folder {name} in {places}; put the data there, or set "
        f"INVARIANCE_DATA to a folder that holds {name}"
    )


def locate(file: File) -> Path | None:
    """The verified path of a file that is there, or None."""
    for folder in data_folders():
        path = folder / file.name
        if path.is_file():
            _verify(path, file)
            return path
    return None


def find(file: File) -> Path:
    """The verified path of a file, fetched if need be."""
    return locate(file) or fetch(file)


def fetch(file: File, progress: Any = None) -> Path:
    """Download a file into the cache from the first mirror that gives the right bytes.

    ``progress`` is an object with ``total``, ``update``, ``reset`` and ``close`` (tqdm's interface).
    """
    place = data_folders()[-1] / file.name
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{place}.lock") as lock:
            try:
                found = place if place.is_file() else _fetched(file, place, progress)
            finally:
                discard(Path(lock.lock_file))
                discard(part_path(place))
    except OSError as error:
        raise DataError(
            f"cannot write {place.parent}: {error.strerror}; free some space there, or set INVARIANCE_DATA to a folder "
            f"that holds {file.name}"
        ) from None
    _verify(found, file)
    return found


def _fetched(file: File, place: Path, progress: Any) -> Path:
    """From the first mirror that gives the right bytes, by way of a folder: all that a killed process can leave."""
    import pooch

    pooch.get_logger().setLevel("ERROR")
    reasons, part = [], part_path(place)
    for url in file.urls:
        discard(part)
        try:
            pooch.retrieve(
                url,
                known_hash=f"sha256:{file.sha256}",
                fname=place.name,
                path=part,
                downloader=pooch.HTTPDownloader(timeout=20, progressbar=progress or False),
            )
        except (OSError, ValueError) as error:  # no network, no such file, or other bytes: try the next mirror
            if isinstance(error, OSError) and error.errno in DISK:
                raise
            reasons.append("other bytes" if isinstance(error, ValueError) else "no answer")
            continue
        return (part / place.name).replace(place)
    raise DataError(
        f"{file.name} is not here and none of its {len(file.urls)} sources gave it ({', '.join(reasons)}); "
        f"put the file at {place}, or set INVARIANCE_DATA to a folder that holds {file.name}"
    )


def _verify(path: Path, file: File) -> None:
    stat = path.stat()
    got = _sha256(path, stat.st_mtime_ns, stat.st_size)
    if got != file.sha256:
        raise DataError(
            f"{path} is not the published file (its SHA-256 starts with {got[:8]}, not {file.sha256[:8]}); "
            "remove it, then run 'invariance data fetch'"
        )


@cache
def _sha256(path: Path, changed: int, size: int) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
