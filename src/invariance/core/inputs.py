"""Images as bytes, converted to numbers only where a model looks at them."""

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from invariance.core.errors import BadValue


@dataclass(frozen=True, eq=False)
class Pixels:
    """Rows of arrays of bytes that stay where they are, often in a memory-mapped file.

    ``rows`` counts through the arrays laid end to end. Taking rows gives other ``Pixels``; nothing is read before
    :meth:`tensor`.
    """

    arrays: tuple[NDArray[np.uint8], ...]
    rows: Tensor

    @classmethod
    def of(cls, array: NDArray[np.uint8] | Tensor) -> "Pixels":
        """Every row of an array or a tensor of bytes."""
        found = array.numpy() if isinstance(array, Tensor) else array
        if found.dtype != np.uint8:
            raise BadValue(f"pixels are bytes; got {found.dtype}: give numbers as a tensor of floating point")
        return cls((found,), torch.arange(len(found)))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """As a tensor's."""
        return (len(self.rows), *self.arrays[0].shape[1:])

    @property
    def dtype(self) -> torch.dtype:
        """As a tensor's."""
        return torch.uint8

    def __getitem__(self, rows: Tensor | NDArray[Any] | slice) -> "Pixels":
        return replace(self, rows=self.rows[rows if isinstance(rows, slice) else torch.as_tensor(rows)])

    def split(self, rows: int) -> Iterator["Pixels"]:
        """Slices of ``rows`` rows."""
        return (self[start : start + rows] for start in range(0, len(self), rows))

    def tensor(self) -> Tensor:
        """The rows themselves, copied, [n, …] of bytes."""
        rows, start = self.rows.numpy(), 0
        if len(self.arrays) == 1:
            found = np.asarray(self.arrays[0])[rows]
        else:
            found = np.empty(self.shape, np.uint8)
            for array in self.arrays:
                own = (rows >= start) & (rows < start + len(array))
                found[own] = np.asarray(array)[rows[own] - start]
                start += len(array)
        for array in self.arrays:
            _unmap(array)
        return torch.from_numpy(found)


Inputs = Tensor | Pixels


def joined(parts: Sequence[Inputs]) -> Inputs:
    """All rows, one part after another; pixels stay where they are."""
    tensors = [part for part in parts if isinstance(part, Tensor)]
    if len(tensors) == len(parts):
        return torch.cat(tensors)
    starts: dict[int, int] = {}
    arrays: list[NDArray[np.uint8]] = []
    rows = []
    for part in (part if isinstance(part, Pixels) else Pixels.of(part) for part in parts):
        moved, start = torch.empty_like(part.rows), 0
        for array in part.arrays:
            if id(array) not in starts:
                starts[id(array)] = sum(len(a) for a in arrays)
                arrays.append(array)
            own = (part.rows >= start) & (part.rows < start + len(array))
            moved[own] = part.rows[own] - start + starts[id(array)]
            start += len(array)
        rows.append(moved)
    return Pixels(tuple(arrays), torch.cat(rows))


def chosen(bits: Tensor, off: Inputs, on: Inputs) -> Inputs:
    """Row i of ``on`` where bit i is set, else of ``off``."""
    if isinstance(off, Tensor) and isinstance(on, Tensor):
        return torch.where(bits.view(-1, *[1] * (off.ndim - 1)), on, off)
    rows = torch.arange(len(bits)) + len(bits) * bits
    return joined((off, on))[rows]


def loaded(x: Inputs) -> Tensor:
    """The rows themselves, whatever they are made of."""
    return x.tensor() if isinstance(x, Pixels) else x


def floats(x: Inputs, device: torch.device | None = None) -> Tensor:
    """Inputs as a model on some device takes them: bytes as numbers in [0, 1], floating point as it is."""
    x = loaded(x) if device is None else loaded(x).to(device)
    return x if x.is_floating_point() else x / 255


def _unmap(array: NDArray[np.uint8]) -> None:
    """Unmap what was read of a file that is not written to; its pages stay in the system's cache, not in ours."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and not array.flags.writeable and hasattr(base, "madvise"):
        base.madvise(mmap.MADV_DONTNEED)


def float_dtype(x: Inputs) -> torch.dtype:
    """The type of the numbers that a model sees."""
    return x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
