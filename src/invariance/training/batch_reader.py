"""Inputs of one batch after another, from a file of rows that do not fit into memory.

The rows of a batch lie anywhere in the file, and to read them one by one is slow. But the order of batches is known
before they are needed, so an epoch of them is prepared at once, by an external distribution sort: the file is read from
its beginning to its end, and each row is appended to its *window* in a second file. A window holds the rows of a few
consecutive batches and fits into memory. Every row that is drawn is read twice and written once, in large pieces, and
the batches are those of the sampler, to the last bit.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from invariance.core.inputs import StoredRows
from invariance.core.row_file import RowFile
from invariance.training.sampler import BatchSampler

WINDOW_BYTES = 64 << 20
"""Of the rows of a window; a batch that is larger is a window."""
PIECE_BYTES = 32 << 20
"""Of the rows that are distributed to their windows at once."""
MAX_DIRECT = 4
"""Up to so many windows, each is read from the file itself: that is cheaper than to write one."""


class BatchReader:
    """Rows and inputs of the batches of a sampler, as ``x[rows]`` gives them; quick where they are read in order."""

    def __init__(self, x: StoredRows, file: RowFile, sampler: BatchSampler) -> None:
        self.x, self.file, self.sampler = x, file, sampler
        self.size = sum(sampler.counts)
        self.each = max(1, WINDOW_BYTES // (self.size * file.row_bytes))  # batches in a window
        self.first, self.rows = 0, torch.empty(0, dtype=torch.int32)  # of the batches that are prepared
        self.windows: _Windows | None = None
        self.window, self.inputs = -1, torch.empty(0)

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
        window, offset = divmod(t - self.first, self.each)
        if window != self.window:
            self.inputs = torch.empty(0)  # makes room
            self.window, self.inputs = window, self._read(window)
        start = (t - self.first) * self.size
        return self.rows[start : start + self.size], self.inputs[offset * self.size : (offset + 1) * self.size]

    def _prepare(self, t: int, end: int) -> None:
        """The batches from ``t`` on that have as many rows as there are."""
        many = max(1, min(end - t, -(-len(self.x) // self.size)))
        self.windows, self.window, self.inputs = None, -1, torch.empty(0)
        dtype = torch.int32 if len(self.x) < 2**31 else torch.int64
        self.first, self.rows = t, torch.cat([self.sampler.rows(t + i).to(dtype) for i in range(many)])
        if many > MAX_DIRECT * self.each:
            self.windows = _Windows(self.file, self.x[self.rows].index.numpy(), self.each * self.size)

    def _read(self, window: int) -> Tensor:
        if self.windows:
            return self.windows.read(window)
        start = window * self.each * self.size
        return self.x[self.rows[start : start + self.each * self.size]].tensor()


class _Windows:
    """A file with the rows ``rows`` of another, in windows of ``size``, and where in its window each of them is."""

    def __init__(self, source: RowFile, rows: NDArray[np.integer], size: int) -> None:
        self.file = RowFile.temporary(source.folder, (len(rows), *source.shape[1:]), source.dtype)
        self.size, self.places = size, np.empty(len(rows), np.int32)
        self.filled = [0] * -(-len(rows) // size)
        for draws in _pieces(rows.argsort(), max(1, PIECE_BYTES // source.row_bytes)):
            self._append(source, rows, draws)

    def _append(self, source: RowFile, rows: NDArray[np.integer], draws: NDArray[np.int64]) -> None:
        """Write some of the rows, by their places among all, each to the end of its window."""
        draws = draws[(draws // self.size).argsort(kind="stable")]
        content, windows, start = source[rows[draws]], draws // self.size, 0
        for end in (np.flatnonzero(np.diff(windows, append=-1)) + 1).tolist():
            window = int(windows[start])
            first = self.filled[window]
            self.file.write(window * self.size + first, content[start:end])
            self.places[draws[start:end]] = np.arange(first, first + end - start)
            self.filled[window] += end - start
            start = end

    def read(self, window: int) -> Tensor:
        """The rows of a window in their order."""
        part = slice(window * self.size, (window + 1) * self.size)
        return torch.from_numpy(self.file[part]).index_select(0, torch.from_numpy(self.places[part]))


def _pieces(values: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    return (values[start : start + size] for start in range(0, len(values), size))
