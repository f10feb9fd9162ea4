"""A model in a folder: weights as safetensors, everything else as one JSON manifest. Nothing is ever unpickled."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from invariance.core.errors import BadValue, DataError, InvarianceError, StoreError

WEIGHTS, MANIFEST = "weights.safetensors", "manifest.json"


def claim(folder: Path, *, overwrite: bool = False) -> None:
    """Make sure a model can be saved to ``folder``, before it is trained."""
    if (folder / MANIFEST).exists() and not overwrite:
        raise BadValue(f"{folder} already holds a run; choose another folder with -o, or add --overwrite")
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        raise BadValue(f"cannot write to {folder}: {place} is no folder to write to; choose another with -o")


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files, each of which appears whole or not at all."""
    parts = {name: folder / f"{name}.part" for name in files}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, part in parts.items():
            part.write_bytes(files[name])
        for name, part in parts.items():
            part.replace(folder / name)
    except OSError as error:
        raise StoreError(f"cannot save to {folder} ({error}); free some space, or choose another folder") from None
    finally:
        for part in parts.values():
            with suppress(OSError):
                part.unlink()


@contextmanager
def reading(folder: Path, what: str, writer: str) -> Iterator[None]:
    """Whatever goes wrong inside is one line that names the folder."""
    if not (folder / MANIFEST).is_file():
        raise DataError(f"{folder} holds no {MANIFEST}; give a folder that {writer} wrote")
    try:
        yield
    except InvarianceError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{folder} holds no readable {what} ({reason}); train it again") from None
