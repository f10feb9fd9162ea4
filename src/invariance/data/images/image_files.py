"""Image files: which there are, what decides them, and how one is read."""

import hashlib
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from stat import S_IFDIR, S_IFLNK, S_IFMT, S_IFREG
from threading import Lock
from typing import Annotated

import numpy as np
from PIL import Image, ImageOps
from pydantic import Field

from invariance.core.errors import DataError
from invariance.data.formats.digest import digest
from invariance.data.images.cache import Broken, Cached, Picture, cached

warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)  # what is too large is an error still
LISTED = (S_IFREG, S_IFDIR, S_IFLNK)
MAX_IMAGE_SIZE = 1024
ImageSize = Annotated[int, Field(ge=1, le=MAX_IMAGE_SIZE)]
"""Pixels per side that images are resized to."""
MAX_PIXELS, LARGE_PIXELS = 100_000_000, 8_000_000
"""An image that decodes to more pixels is refused; one that decodes to more than ``LARGE_PIXELS`` waits for others."""
_large = Lock()


@dataclass(frozen=True)
class Files:
    """Files below ``root``: their names, sizes, and the times of their last change, which nobody can set."""

    root: Path
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    changed: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def content(self) -> str:
        """What changes when a file holds something else, wherever it lies: a hash of names and bytes."""
        readable = [i for i, name in enumerate(self.names) if (self.root / name).is_file()]
        held = digest([self.root / self.names[i] for i in readable])
        return hashlib.blake2b(repr((self.names, readable, held)).encode(), digest_size=16).hexdigest()

    def take(self, rows: Iterable[int]) -> "Files":
        """Some of them."""
        every = [(self.names[i], self.sizes[i], self.changed[i]) for i in rows]
        return Files(self.root, *_columns(every))


def listed(root: Path, folders: Sequence[str]) -> Files:
    """Every file in some folders below ``root``, sorted; hidden ones do not count.

    Folders among them and links that lead nowhere are listed too: they cannot be read, which must not go unnoticed.
    """
    found = []
    try:
        for folder in folders:
            for entry in os.scandir(root / folder):
                if not entry.name.startswith(".") and S_IFMT((stat := _stat(entry)).st_mode) in LISTED:
                    found.append((f"{folder}/{entry.name}", stat.st_size, stat.st_ctime_ns))
    except OSError as error:
        raise DataError(f"cannot read {error.filename}: {error.strerror}") from None
    require_utf8(root, [name for name, *_ in found])
    return Files(root, *_columns(sorted(found)))


def require_utf8(root: Path, names: Iterable[str]) -> None:
    """Refuse names that no table and no message could hold."""
    for name in names:
        if name != name.encode(errors="ignore").decode():
            raise DataError(f"{root} holds {name!a}, whose name is not UTF-8; rename it")


def _stat(entry: "os.DirEntry[str]") -> os.stat_result:
    try:
        return entry.stat()
    except OSError:  # a link that leads nowhere
        return entry.stat(follow_symlinks=False)


def remembered(root: Path, folders: Sequence[str]) -> Files:
    """The same, listed again only when a file has come or gone: for what is asked often and needs no images."""
    try:
        return _remembered(root, tuple(folders), tuple((root / name).stat().st_mtime_ns for name in folders))
    except OSError as error:
        raise DataError(f"cannot read {error.filename}: {error.strerror}") from None


Lister = Callable[[Path, Sequence[str]], Files]


@cache
def _remembered(root: Path, folders: tuple[str, ...], changed: tuple[int, ...]) -> Files:
    return listed(root, folders)


def _columns(rows: list[tuple[str, int, int]]) -> tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...]]:
    names, sizes, times = zip(*rows, strict=True) if rows else ((), (), ())
    return names, sizes, times


def pictures(files: Files, image_size: int, *, title: str, broken: Broken | None = "refuse") -> Cached:
    """The images in files, from their cache."""
    paths = [files.root / name for name in files.names]
    listing = hashlib.blake2b(repr((files.names, files.sizes)).encode(), digest_size=16).hexdigest()
    key = f"{files.root.resolve()} {listing} {files.changed}"
    shape = (3, image_size, image_size)
    return cached(paths, shape, partial(read, image_size=image_size), title=title, key=key, broken=broken)


def read(path: Path, image_size: int) -> Picture:
    """A file's image, upright as the camera noted it, its middle square resized, [3, image_size, image_size]."""
    with Image.open(path) as image:
        image.draft("RGB", (2 * image_size, 2 * image_size))  # a large JPEG is decoded at a fraction of its size
        with room_for(image):
            return _square(image, image_size)


def room_for(image: Image.Image) -> AbstractContextManager[object]:
    """Held while an image is decoded, so that memory stays bounded; its header says how large it is."""
    pixels = image.width * image.height
    if pixels > MAX_PIXELS:
        raise DataError(f"{image.width}×{image.height} pixels, more than {MAX_PIXELS:,}; save it smaller")
    return _large if pixels > LARGE_PIXELS else nullcontext()


def _square(image: Image.Image, image_size: int) -> Picture:
    upright = ImageOps.exif_transpose(image)
    if upright.mode == "F" or (upright.mode == "I" and image.format == "TIFF"):
        raise DataError("its numbers have no known range; save it with 8 or 16 bits per pixel")
    if upright.mode.startswith("I"):  # 16 bits per pixel, which Pillow would clip at 255
        upright = Image.fromarray((np.asarray(upright) >> 8).astype(np.uint8))
    side = min(upright.size)
    left, top = ((length - side) // 2 for length in upright.size)
    square = upright.convert("RGB").crop((left, top, left + side, top + side))
    return np.asarray(square.resize((image_size, image_size), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
