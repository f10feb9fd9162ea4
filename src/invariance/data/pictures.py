"""Image files: which there are, what decides them, and how one is read."""

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from invariance.data.cache import Broken, Cached, Picture, cached

ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp"})


def read(path: Path, pixels: int) -> Picture:
    """A file's image, its middle square resized to ``pixels`` a side, [3, pixels, pixels]."""
    with Image.open(path) as image:
        image.draft("RGB", (2 * pixels, 2 * pixels))  # a large JPEG is decoded at a fraction of its size
        square = ImageOps.fit(image.convert("RGB"), (pixels, pixels), Image.Resampling.BILINEAR)
    return np.asarray(square).transpose(2, 0, 1)


def fingerprint(root: Path, names: Sequence[str]) -> str:
    """What changes when files do: a hash of their names and sizes."""
    found = hashlib.blake2b(digest_size=16)
    for name in names:
        found.update(f"{name}\0{(root / name).stat().st_size}\0".encode())
    return found.hexdigest()


def pictures(root: Path, names: Sequence[str], pixels: int, *, title: str, broken: Broken = "refuse") -> Cached:
    """The images in files below ``root``, from their cache."""
    changed = max((int((root / name).stat().st_mtime_ns) for name in names), default=0)
    paths = [root / name for name in names]
    key = f"{fingerprint(root, names)} {changed}"
    return cached(paths, (3, pixels, pixels), partial(read, pixels=pixels), title=title, key=key, broken=broken)
