"""Images that are made once, and then read from a memory-mapped file.

A cache is a folder with the images of all items as one array of bytes and a list of the items that could not be made.
It is built under a lock beside its place and renamed into it: whoever comes second waits and finds it, and what a
killed process left is thrown away by the next.
"""

import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from invariance.core.atomic import atomic_write, discard
from invariance.core.errors import DataError
from invariance.core.provenance import cores
from invariance.core.text import clean
from invariance.data.formats.downloads import cache_folder

T = TypeVar("T")
Picture = NDArray[np.uint8]
Broken = Literal["refuse", "skip"]
"""What to do with files that hold no readable image."""

FORMAT = 2
"""Raised whenever the same key would give other bytes than before."""
BUFFER_BYTES = 64 << 20
"""Bytes of images that are made before any is written: bounds the memory of building."""
MAX_NAMES = 20
"""How many broken items a message names."""
IMAGES, REPORT = "images.npy", "broken.json"


class Cached(NamedTuple):
    """Every item's image, [n, …] of bytes in a file, and why some could not be made (their bytes are 0)."""

    images: Picture
    broken: dict[int, str]


def cached(
    items: Sequence[T],
    shape: tuple[int, ...],
    make: Callable[[T], Picture],
    *,
    title: str,
    key: str,
    broken: Broken | None = "refuse",
) -> Cached:
    """``make(item)`` of every item, made in parallel the first time it is asked for.

    ``key`` says what decides the images besides ``shape``: what changes whenever an item or ``make`` changes. ``make``
    raises whatever it likes for an item that is broken. These are named in an error, or in a warning and left to the
    caller, who skips them; None leaves them to the caller without a word. ``title`` is for messages and the folder's
    name.
    """
    decided = json.dumps([FORMAT, key, shape, len(items)])
    place = cache_folder() / "images" / f"{title}-{hashlib.blake2b(decided.encode(), digest_size=8).hexdigest()}"
    try:
        found = _opened(place)
        if found is None:
            place.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{place}.lock"):
                found = _opened(place) or _built(place, items, shape, make, title)
    except OSError as error:
        raise DataError(
            f"cannot keep images in {place.parent} ({error.strerror or error}); free some space there, "
            "or set INVARIANCE_CACHE to another folder"
        ) from None
    if found.broken and broken:
        first, reason = next(iter(found.broken.items()))
        count = f"{len(found.broken)} of {len(items)} images of {title} cannot be read"
        message = f"{count}, the first is {items[first]} ({reason})"
        names = ", ".join(str(items[i]) for i in list(found.broken)[:MAX_NAMES])
        names += ", …" * (len(found.broken) > MAX_NAMES)
        if broken == "refuse":
            them = f"they are {names}; put them" if len(found.broken) > 1 else "put it"
            raise DataError(f"{message}; {them} right, or set data.broken=skip")
        logging.getLogger(__name__).warning("%s; left out: %s", clean(message), clean(names))
    return found


def _opened(place: Path) -> Cached | None:
    """A cache that is there and whole."""
    try:
        images = np.load(place / IMAGES, mmap_mode="r")
        broken = json.loads((place / REPORT).read_text(encoding="utf-8"))
        return Cached(images, {int(item): reason for item, reason in broken.items()})
    except (FileNotFoundError, ValueError, EOFError, AttributeError):  # not there, or a disk lost some of it
        return None


def _built(place: Path, items: Sequence[T], shape: tuple[int, ...], make: Callable[[T], Picture], title: str) -> Cached:
    discard(place)  # it could not be read
    with atomic_write(place, sync=True) as part:
        part.mkdir()
        broken = _write(part / IMAGES, items, shape, make, title)
        (part / REPORT).write_text(json.dumps(broken), encoding="utf-8")
    return Cached(np.load(place / IMAGES, mmap_mode="r"), broken)


def _write(
    path: Path, items: Sequence[T], shape: tuple[int, ...], make: Callable[[T], Picture], title: str
) -> dict[int, str]:
    """Write the image of every item; returns why some could not be made."""
    broken: dict[int, str] = {}
    header = {"descr": "|u1", "fortran_order": False, "shape": (len(items), *shape)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for i, image in enumerate(_made(items, max(2, BUFFER_BYTES // math.prod(shape)), make, title)):
            if isinstance(image, str) or image.shape != shape or image.dtype != np.uint8:
                broken[i] = image if isinstance(image, str) else f"{image.dtype} of shape {image.shape}, not {shape}"
                image = np.zeros(shape, np.uint8)
            file.write(np.ascontiguousarray(image).data)
    return broken


def _made(items: Sequence[T], at_once: int, make: Callable[[T], Picture], title: str) -> Iterator[Picture | str]:
    """Images in the order of their items, or why there is none."""
    from invariance.core.progress import progress_bar

    def attempt(item: T) -> Picture | str:
        try:
            return make(item)
        except Exception as error:  # a decoder may raise anything
            return " ".join(f"{type(error).__name__}: {error}".split())

    with progress_bar() as bar, ThreadPoolExecutor(cores()) as pool:
        task = bar.add_task(f"preparing {title}", total=len(items))
        for start in range(0, len(items), at_once):
            for image in pool.map(attempt, items[start : start + at_once]):
                yield image
                bar.advance(task)
