"""Inputs that stay in their file until a model looks at them: images as bytes, and tables as numbers."""

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from invariance.core.errors import BadValue
from invariance.core.row_file import RowFile

Array = NDArray[Any] | RowFile


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Rows of arrays of numbers that stay where they are, often in a file.

    ``rows`` counts through the arrays laid end to end: a range, or a tensor of numbers. Taking rows gives other
    ``StoredRows``; nothing is read before :meth:`tensor`.
    """

    arrays: tuple[Array, ...]
    rows: Tensor | range

    @classmethod
    def of(cls, array: Array) -> Self:
        """Every row of an array."""
        return cls((array,), range(len(array)))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """As a tensor's."""
        return (len(self.rows), *self.arrays[0].shape[1:])

    @property
    def ndim(self) -> int:
        """As a tensor's."""
        return self.arrays[0].ndim

    @property
    def dtype(self) -> torch.dtype:
        """As a tensor's."""
        return torch.from_numpy(np.empty(0, self.arrays[0].dtype)).dtype

    @property
    def index(self) -> Tensor:
        """The numbers of the rows, [n]."""
        return (
            torch.arange(self.rows.start, self.rows.stop, self.rows.step) if isinstance(self.rows, range) else self.rows
        )

    def __getitem__(self, rows: Tensor | NDArray[Any] | slice) -> Self:
        if isinstance(rows, slice):
            return replace(self, rows=self.rows[rows])
        if isinstance(self.rows, range):
            chosen = torch.as_tensor(rows)
            chosen = chosen.nonzero().squeeze(1) if chosen.dtype == torch.bool else chosen
            return replace(self, rows=chosen * self.rows.step + self.rows.start)
        return replace(self, rows=self.rows[torch.as_tensor(rows)])

    def split(self, rows: int) -> Iterator[Self]:
        """Slices of ``rows`` rows."""
        return (self[start : start + rows] for start in range(0, len(self), rows))

    def tensor(self) -> Tensor:
        """The rows themselves, copied, [n, …]."""
        if len(self.arrays) == 1:
            found = _taken(self.arrays[0], self.rows)
        else:
            rows, start = self.index.numpy(), 0
            found = np.empty(self.shape, self.arrays[0].dtype)
            for array in self.arrays:
                own = (rows >= start) & (rows < start + len(array))
                found[own] = _taken(array, torch.from_numpy(rows[own] - start))
                start += len(array)
        for array in self.arrays:
            _unmap(array)
        return torch.from_numpy(found)


class Pixels(StoredRows):
    """Images as bytes, converted to numbers only where a model looks at them; in a file, or in memory."""

    @classmethod
    def of(cls, array: Array | Tensor) -> Self:
        """Every row of an array or a tensor of bytes."""
        found = array.numpy() if isinstance(array, Tensor) else array
        if found.dtype != np.uint8:
            raise BadValue(f"pixels are bytes; got {found.dtype}: give numbers as a tensor of floating point")
        return super().of(found)


@dataclass(frozen=True, eq=False)
class Dropped(StoredRows):
    """Rows in memory without the entries that an update does not see; numbers are made of them slice by slice.

    ``kept`` says which entries of the array are kept. They are divided by 1 − ``share``, as dropout does.
    """

    kept: Tensor
    share: float

    def tensor(self) -> Tensor:
        """The rows as numbers, [n, …]."""
        x = super().tensor()
        rows = self.rows if isinstance(self.rows, Tensor) else slice(self.rows.start, self.rows.stop, self.rows.step)
        kept = self.kept[rows]
        x = floats(x.mul_(kept if x.is_floating_point() else kept.view(torch.uint8)))
        return x.mul_(torch.ones((), dtype=x.dtype).div_(1 - self.share))


Inputs = Tensor | StoredRows


def joined(parts: Sequence[Inputs]) -> Inputs:
    """All rows, one part after another; stored ones stay where they are."""
    tensors = [part for part in parts if isinstance(part, Tensor)]
    if len(tensors) == len(parts):
        return torch.cat(tensors)
    stored = [part if isinstance(part, StoredRows) else Pixels.of(part) for part in parts]
    return _neighbours(stored) or _indexed(stored)


def _neighbours(parts: Sequence[StoredRows]) -> StoredRows | None:
    """Parts that follow one another in the same file, as one range."""
    ranges = [part.rows for part in parts if isinstance(part.rows, range)]
    same = all(len(part.arrays) == 1 and part.arrays[0] is parts[0].arrays[0] for part in parts)
    if len(ranges) < len(parts) or not same or any(a.stop != b.start or a.step != 1 for a, b in pairwise(ranges)):
        return None
    return replace(parts[0], rows=range(ranges[0].start, ranges[-1].stop))


def _indexed(parts: Sequence[StoredRows]) -> StoredRows:
    starts: dict[int, int] = {}
    arrays: list[Array] = []
    rows = []
    for part in parts:
        own_rows = part.index
        moved, start = torch.empty_like(own_rows), 0
        for array in part.arrays:
            if id(array) not in starts:
                starts[id(array)] = sum(len(a) for a in arrays)
                arrays.append(array)
            own = (own_rows >= start) & (own_rows < start + len(array))
            moved[own] = own_rows[own] - start + starts[id(array)]
            start += len(array)
        rows.append(moved)
    return replace(parts[0], arrays=tuple(arrays), rows=torch.cat(rows))


def chosen(bits: Tensor, off: Inputs, on: Inputs) -> Inputs:
    """Row i of ``on`` where bit i is set, else of ``off``."""
    if isinstance(off, Tensor) and isinstance(on, Tensor):
        return torch.where(bits.view(-1, *[1] * (off.ndim - 1)), on, off)
    rows = torch.arange(len(bits)) + len(bits) * bits
    return joined((off, on))[rows]


def loaded(x: Inputs) -> Tensor:
    """The rows themselves, whatever they are made of."""
    return x.tensor() if isinstance(x, StoredRows) else x


def floats(x: Inputs, device: torch.device | None = None) -> Tensor:
    """Inputs as a model on some device takes them: bytes as numbers in [0, 1], floating point as it is."""
    x = loaded(x) if device is None else loaded(x).to(device)
    return x if x.is_floating_point() else x / 255


def _taken(array: Array, rows: Tensor | range) -> NDArray[Any]:
    """Some rows, copied."""
    array = array if isinstance(array, RowFile) else np.asarray(array)
    if isinstance(rows, range) and rows.step == 1:
        return array[rows.start : rows.stop].copy() if isinstance(array, np.ndarray) else array[rows.start : rows.stop]
    return array[np.asarray(rows)]


def _unmap(array: Array) -> None:
    """Unmap what was read of a file that is not written to; its pages stay in the system's cache, not in ours."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    mapped = isinstance(array, np.ndarray) and not array.flags.writeable
    if mapped and isinstance(base, mmap.mmap) and hasattr(base, "madvise"):
        base.madvise(mmap.MADV_DONTNEED)


def float_dtype(x: Inputs) -> torch.dtype:
    """The type of the numbers that a model sees."""
    return x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
