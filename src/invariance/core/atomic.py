"""Files and folders that appear whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from invariance.core.errors import BadValue


def check_folder(path: Path) -> None:
    """Refuse a file whose folder is not there or cannot be written to, before anything is computed."""
    if not path.parent.is_dir():
        raise BadValue(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise BadValue(f"cannot write {path}: {path.parent.absolute()} is not a writable folder; choose another file")


def part_path(path: Path) -> Path:
    """What ``path`` is called while it is written: all that a killed process can leave of it."""
    return path.with_name(f"{path.name}.part")


@contextmanager
def atomic_write(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """Where to write a file or make a folder that is renamed to ``path`` at the end, or removed after an error.

    What a killed process left of it is removed first. ``sync`` waits until the content is on the disk, for what must
    survive a power failure too. Processes that may write the same path at once need a lock.
    """
    part = part_path(path)
    discard(part)
    try:
        yield part
        if sync:
            _sync(part)
        part.replace(path)
    except OSError as error:
        error.filename = error.filename or str(path)  # a full disk does not say which file it was
        raise
    finally:
        discard(part)


def discard(path: Path) -> None:
    """Remove a file or a folder, if it is there and can be removed."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    for file in path.rglob("*") if path.is_dir() else [path]:
        if file.is_file():
            with file.open("r+b") as stream:
                os.fsync(stream.fileno())
