"""Masks of objects in COCO's three notations: polygons, run lengths, and run lengths packed into text."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from invariance.core.errors import DataError

Mask = NDArray[np.bool_]


def mask(segmentation: Any, height: int, width: int) -> Mask:
    """Which pixels an object covers, [height, width].

    A list holds polygons ``[x0, y0, x1, y1, …]`` whose union the object is; ``{"size": [h, w], "counts": …}`` holds run
    lengths, as numbers or as text.
    """
    if isinstance(segmentation, list):
        covered = np.zeros((height, width), dtype=np.bool_)
        for points in [points for points in segmentation if len(points) >= 6] or segmentation:  # a line covers nothing
            covered |= _inside(points, height, width)
        return covered
    try:
        counts, size = segmentation["counts"], tuple(segmentation["size"])
    except (KeyError, TypeError):
        raise DataError("a mask needs polygons, or 'counts' and 'size'; it has neither") from None
    if size != (height, width):
        raise DataError(f"a mask is {size[-1]}×{size[0]} pixels on an image of {width}×{height}; they must agree")
    return _filled(unpacked(counts) if isinstance(counts, str) else counts, height, width)


def _inside(points: Sequence[float], height: int, width: int) -> Mask:
    """Pixels whose centre lies inside a polygon: an odd number of its edges passes left of it."""
    if len(points) < 6 or len(points) % 2:
        raise DataError(f"a polygon has {len(points)} coordinates; it needs an x and a y for three corners or more")
    x, y = np.asarray(points, dtype=np.float64).reshape(-1, 2).T
    x_next, y_next = np.roll(x, -1), np.roll(y, -1)
    centres = np.arange(height)[:, None] + 0.5
    row, edge = np.nonzero((y <= centres) != (y_next <= centres))  # edges that a row of centres meets
    along = (row + 0.5 - y[edge]) / (y_next[edge] - y[edge])
    meets = x[edge] + along * (x_next[edge] - x[edge])
    first = np.clip(np.ceil(meets - 0.5), 0, width).astype(np.int64)  # the first centre right of the edge
    passed = np.zeros((height, width + 1), dtype=np.int64)
    np.add.at(passed, (row, first), 1)
    return passed.cumsum(axis=1)[:, :width] % 2 == 1


def _filled(counts: Sequence[int], height: int, width: int) -> Mask:
    """Runs of pixels, off and on by turns, down the columns."""
    runs = np.asarray(counts)
    if runs.dtype.kind not in "iu" or runs.ndim != 1 or (runs < 0).any() or runs.sum() != height * width:
        raise DataError(f"the run lengths of a mask do not add up to {width}×{height} pixels")
    return np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(width, height).T


def unpacked(text: str) -> list[int]:
    """Run lengths from their packed form.

    Each is a number in base 32, lowest digit first, with one character per digit, from ``0`` on. The digit's sixth bit
    says that another one follows, the fifth bit of the last digit that the number is negative. From the fourth on, it
    is the difference to the run before last.
    """
    runs: list[int] = []
    number = shift = 0
    for character in text:
        digit = ord(character) - 48
        if not 0 <= digit < 64:
            raise DataError(f"packed run lengths have the character {character!r}; expected '0' to 'o'")
        number |= (digit & 31) << shift
        shift += 5
        if not digit & 32:
            number -= (1 << shift) if digit & 16 else 0
            runs.append(number + (runs[-2] if len(runs) > 2 else 0))
            number = shift = 0
    if shift:
        raise DataError("packed run lengths end within a number")
    return runs
