"""Inputs of one batch after another, from a file of rows that do not fit into memory.

The rows of a batch lie anywhere in the file, and to read them one by one is slow. But the order of batches is known
before they are needed, so an epoch of them is prepared at once, by an external distribution sort: the file is read from
its beginning to its end, and each row is appended to its *window* in a second file. A window holds the rows of a few
consecutive batches and fits into memory. Every row that is drawn is read twice and written once, in large pieces, and
the batches are those of the sampler, to the last bit.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from invariance.core.inputs import StoredRows
from invariance.core.row_file import RowFile
from invariance.training.sampler import BatchSampler

WINDOW_BYTES = 64 << 20
"""Of the rows of a window; a batch that is larger is a window."""
PIECE_BYTES = 16 << 20
"""Of the rows that are distributed to their windows at once. Memory of this size is used again, not given back."""


class BatchReader:
    """Rows and inputs of the batches of a sampler, as ``x[rows]`` gives them; quick where they are read in order."""

    def __init__(self, x: StoredRows, file: RowFile, sampler: BatchSampler) -> None:
        self.x, self.sampler = x, sampler
        self.size = sum(sampler.counts)
        self.each = max(1, WINDOW_BYTES // (self.size * file.row_bytes))  # batches in a window
        self.windows = _Windows(file, self.each * self.size)
        self.first, self.rows = 0, torch.empty(0, dtype=torch.int32)  # of the batches that are prepared

    @classmethod
    def of(cls, x: object, sampler: BatchSampler | None) -> "BatchReader | None":
        """A reader where rows are in a file that is not mapped."""
        if not sampler or not isinstance(x, StoredRows) or len(x.arrays) > 1 or not isinstance(x.arrays[0], RowFile):
            return None
        return cls(x, x.arrays[0], sampler)

    def read(self, t: int, end: int) -> tuple[Tensor, Tensor]:
        """The row numbers of batch ``t`` and its inputs, where batches before ``end`` come next."""
        if t < self.first:
            rows = self.sampler.rows(t)
            return rows, self.x[rows].tensor()
        if (t - self.first) * self.size >= len(self.rows):
            self._prepare(t, end)
        start = (t - self.first) * self.size
        part = slice(start, start + self.size)
        return self.rows[part], self.windows.take(part)

    def _prepare(self, t: int, end: int) -> None:
        """The batches from ``t`` on that have as many rows as there are."""
        many = max(1, min(end - t, -(-len(self.x) // self.size)))
        dtype = torch.int32 if len(self.windows.source) < 2**31 else torch.int64
        self.first, self.rows = t, torch.cat([self.sampler.rows(t + i).to(dtype) for i in range(many)])
        self.windows.fill(self.x[self.rows].index.numpy())


class _Windows:
    """Rows of a file in an order of their own, in a second file: window after window, of ``size`` rows each.

    In its window, a row is at the next free place. Only these places are in memory, and one window.
    """

    def __init__(self, source: RowFile, size: int) -> None:
        self.source, self.size = source, size
        self.file: RowFile | None = None
        self.places = np.empty(0, np.int32)
        self.window, self.content = -1, np.empty((0, *source.shape[1:]), source.dtype)

    def fill(self, rows: NDArray[np.integer]) -> None:
        """Read ``rows`` in the order of the file, and write each to its window."""
        source, self.window = self.source, -1
        if not self.file or len(self.file) < len(rows):
            self.file = RowFile.temporary(source.folder, (len(rows), *source.shape[1:]), source.dtype)
        self.places, filled = np.empty(len(rows), np.int32), [0] * -(-len(rows) // self.size)
        order, piece = rows.argsort(), max(1, PIECE_BYTES // source.row_bytes)
        for start in range(0, len(rows), piece):
            self._append(self.file, rows, order[start : start + piece], filled)

    def _append(self, file: RowFile, rows: NDArray[np.integer], draws: NDArray[np.int64], filled: list[int]) -> None:
        """Write some of the rows, by their places among all, each to the end of its window."""
        draws = draws[(draws // self.size).argsort(kind="stable")]
        content, windows, start = self.source[rows[draws]], draws // self.size, 0
        for end in (np.flatnonzero(np.diff(windows, append=-1)) + 1).tolist():
            window, many = int(windows[start]), end - start
            first = filled[window]
            file.write(window * self.size + first, content[start:end])
            self.places[draws[start:end]] = np.arange(first, first + many)
            filled[window] += many
            start = end

    def take(self, part: slice) -> Tensor:
        """Consecutive rows of one window."""
        window = part.start // self.size
        if window != self.window and self.file:
            first, last = window * self.size, min((window + 1) * self.size, len(self.places))
            if len(self.content) < last - first:
                self.content = np.empty((self.size, *self.source.shape[1:]), self.source.dtype)
            self.file.read(first, self.content[: last - first])
            self.window = window
        return torch.from_numpy(self.content).index_select(0, torch.from_numpy(self.places[part]))
