"""Rows of numbers in a temporary file, which are read as they are asked for."""

import math
import os
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from invariance.core.errors import BadValue, DataError

GAP_BYTES = 16 << 10
"""Rows are read together where no more than this lies between them: to read it takes as long as another call."""
PIECE_BYTES = 4 << 20
"""Bytes that are read together at most, so that they stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class RowFile:
    """An array of numbers in an open file without a name, which goes away with its last user.

    Rows are read and never mapped into memory: a row of a memory-mapped file costs a page fault, and counts as sixteen
    pages of memory.
    """

    file: BinaryIO
    folder: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def temporary(cls, folder: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> "RowFile":
        """A new file in a folder, all of whose rows are to be written."""
        with _room(folder, math.prod(shape) * dtype.itemsize):
            folder.mkdir(parents=True, exist_ok=True)
            file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (open as long as its rows are in use)
        rows = cls(file, folder, shape, dtype)
        weakref.finalize(rows, file.close)
        return rows

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """As an array's."""
        return len(self.shape)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.dtype.itemsize * math.prod(self.shape[1:])

    def write(self, start: int, rows: NDArray[Any]) -> None:
        """Write some rows from row ``start`` on."""
        content, place = _bytes(rows), start * self.row_bytes
        with _room(self.folder, len(self) * self.row_bytes):
            while content:
                written = os.pwrite(self.file.fileno(), content, place)
                content, place = content[written:], place + written

    def __getitem__(self, rows: slice | NDArray[np.integer[Any]]) -> NDArray[Any]:
        """A copy of some rows: a slice without a step, or rows by their numbers, in any order."""
        if not isinstance(rows, slice):
            return self._taken(rows)
        start, stop, _ = rows.indices(len(self))
        return self.read(start, np.empty((stop - start, *self.shape[1:]), self.dtype))

    def read(self, start: int, into: NDArray[Any]) -> NDArray[Any]:
        """Fill an array with the rows from row ``start`` on."""
        self._read(_bytes(into), start)
        return into

    def _taken(self, rows: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Rows by their numbers, read in the order of the file, neighbours together."""
        found = np.empty((len(rows), *self.shape[1:]), self.dtype)
        into = _bytes(found)
        order = rows.argsort(kind="stable")
        places, size = rows[order], self.row_bytes
        piece = max(1, PIECE_BYTES // size)
        apart = (np.diff(places) > 1 + GAP_BYTES // size) | (np.diff(places // piece) > 0)
        for a, b in pairwise([0, *(np.flatnonzero(apart) + 1).tolist(), len(rows)] if len(rows) else []):
            first, last = int(places[a]), int(places[b - 1])
            if b == a + 1:
                here = int(order[a]) * size
                self._read(into[here : here + size], first)
            else:
                found[order[a:b]] = self[first : last + 1].take(places[a:b] - first, axis=0)
        return found

    def _read(self, into: memoryview, start: int) -> None:
        """Read from row ``start`` on; the system reads no more than 2 GB at once."""
        place = start * self.row_bytes
        while into:
            read = os.preadv(self.file.fileno(), [into], place)
            if not read:
                raise BadValue("a temporary file of encoded rows is shorter than it was; is the disk full? Try again")
            into, place = into[read:], place + read


def _bytes(array: NDArray[Any]) -> memoryview:
    """Of an array that is contiguous; they may be written to."""
    return array.reshape(-1).view(np.uint8).data


@contextmanager
def _room(folder: Path, size: int) -> Iterator[None]:
    """Where there is no room for a file of so many bytes, one line says so."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"cannot keep {size / 1e9:.1f} GB of rows in {folder} ({error.strerror or error}); free some space there, "
            "or set INVARIANCE_CACHE to another folder"
        ) from None
