"""A table that is larger than memory: its rows are encoded once into a file, environment after environment."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from invariance.core.errors import DataError
from invariance.core.inputs import StoredRows
from invariance.core.row_file import RowFile
from invariance.core.rows import Rows
from invariance.data.formats.downloads import cache_folder
from invariance.tabular.labelled_rows import LabelledBatches, Schema, imbalance

COPIES = 3
"""How often rows in memory are held at once, at most: as they are read, joined, and sorted by environment."""


def fits_memory(schema: Schema, memory: int) -> bool:
    """Whether the encoded rows of a table can be held in ``memory`` bytes."""
    return COPIES * 4 * sum(schema.counts.values()) * len(schema.encoder.features) <= memory


def default_memory() -> int:
    """Half of the machine's memory, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def stored_rows(schema: Schema) -> Rows:
    """All labelled rows, encoded into a temporary file of the cache that goes away with them."""
    encoder, counts = schema.encoder, {name: n for name, n in sorted(schema.counts.items()) if n}
    batches = LabelledBatches(schema.source, encoder)
    total, width = sum(counts.values()), len(encoder.features)
    if not total:
        raise DataError(f"{schema.source.path} has no row with a label and an environment")
    labels = _Labels(total, numeric=encoder.numeric_label)
    free = dict(zip(counts, np.cumsum([0, *counts.values()]).tolist(), strict=False))
    x = RowFile.temporary(cache_folder(), (total, width), np.dtype(np.float32))
    for rows in batches:
        _write(x, rows, free, labels)
    names = np.array(list(counts), dtype=object)
    codes = np.repeat(np.arange(len(counts), dtype=np.int32), list(counts.values()))
    y, classes = labels.finished()
    notes = (*batches.notes, *(() if classes is None else imbalance(classes, np.bincount(y))))
    return Rows(StoredRows.of(x), y, codes, names, notes=notes, classes=classes, parts=tuple(encoder.parts))


class _Labels:
    """The label of every row: numbers, or codes of classes that are numbered as they come."""

    def __init__(self, rows: int, *, numeric: bool) -> None:
        self.y: NDArray[Any] = np.zeros(rows, np.float64 if numeric else np.int16)
        self.codes: dict[str, int] | None = None if numeric else {}

    def coded(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Some labels as they are kept."""
        if self.codes is None:
            return labels
        different, inverse = np.unique(labels.astype(str), return_inverse=True)
        codes = [self.codes.setdefault(str(name), len(self.codes)) for name in different]
        return np.array(codes, self.y.dtype)[inverse]

    def finished(self) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """The labels, and the classes, sorted, that they are codes of."""
        if self.codes is None:
            return self.y, None
        classes = sorted(self.codes)
        place = np.empty(len(classes), self.y.dtype)
        place[[self.codes[name] for name in classes]] = np.arange(len(classes))
        return place[self.y], np.array(classes, dtype=object)


def _write(file: RowFile, rows: Rows, free: dict[str, int], labels: _Labels) -> None:
    """Write some rows where those of their environments go on."""
    order = np.argsort(rows.codes, kind="stable")
    x, y, start = np.asarray(rows.x)[order], labels.coded(rows.y)[order], 0
    for name, count in zip(rows.names.tolist(), rows.counts, strict=True):
        if count:
            first = free[name]
            file.write(first, x[start : start + count])
            labels.y[first : first + count] = y[start : start + count]
            free[name] += count
            start += count
