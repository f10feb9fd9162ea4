"""What a column holds, learned in one pass over the rows."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from invariance.tabular.cells import all_finite, counts, list_width, names, numbers, unusable
from invariance.tabular.source import Source

MAX_DISTINCT = 5000
"""Different values that are counted; a column with more of them is not categorical."""
MIN_TEXTS, MIN_WORDS, MIN_CHARACTERS = 20, 4, 41
"""Free text has more than ``MIN_TEXTS`` different values, most of them of several words: so many, or so long."""


@dataclass
class ColumnProfile:
    """Statistics of the rows of a column that were read so far.

    ``values`` counts the different values, and is ``truncated`` where there are too many. ``numbers`` is how many cells
    are numbers, ``finite`` how many of these can be computed with. ``consecutive`` says whether each number is the
    previous one plus one, as in a column of row numbers. ``unusable`` is what the column holds if no numbers, names or
    dates, and ``width`` the length of lists of numbers, if all have the same.
    """

    name: str
    rows: int = 0
    present: int = 0
    numbers: int = 0
    finite: int = 0
    total: float = 0.0
    lowest: float = np.inf
    highest: float = -np.inf
    consecutive: bool = True
    unusable: str = ""
    width: int = 0
    values: Counter[str] = field(default_factory=Counter)
    truncated: bool = False

    def add(self, column: pa.Array) -> None:
        """Add some more rows."""
        self.rows += len(column)
        self.unusable = self.unusable or unusable(column.type)
        if self.unusable:
            self._add_lists(column)
            return
        values = numbers(column)
        finite = values if all_finite(values) else values[np.isfinite(values)]
        if len(finite):
            self.consecutive = self.consecutive and self._goes_on(finite)
            self.lowest, self.highest = min(self.lowest, finite.min()), max(self.highest, finite.max())
        words = 0 if finite is values else int(np.isnan(values).sum())
        numeric, filled = len(values) - words, len(column) - column.null_count
        self.numbers += numeric
        self.finite += len(finite)
        self.total += float(finite.sum())
        self.present += filled if numeric == filled else len(column) - names(column).null_count
        if not self.truncated:
            self.values.update(counts(column, 2 * MAX_DISTINCT))
            self.truncated = len(self.values) > MAX_DISTINCT
            if self.truncated:  # the most frequent ones say enough about the rest
                self.values = Counter(dict(self.values.most_common(MAX_DISTINCT + 1)))

    def _goes_on(self, finite: NDArray[np.float64]) -> bool:
        """Whether each of some more numbers is the previous one plus one."""
        if self.finite and finite[0] != self.highest + 1:
            return False
        return bool(np.all(np.diff(finite[:2]) == 1) and np.all(np.diff(finite) == 1))

    def _add_lists(self, column: pa.Array) -> None:
        filled = len(column) - column.null_count
        if filled:
            width = list_width(column)
            self.width = width if not self.present or width == self.width else 0
        self.present += filled

    @property
    def missing(self) -> int:
        """Cells without a value."""
        return self.rows - self.present

    @property
    def mean(self) -> float:
        """Of the finite numbers; 0 where there are none."""
        return self.total / self.finite if self.finite else 0.0

    @property
    def is_numeric(self) -> bool:
        """Whether every value is a number."""
        return self.finite > 0 and self.numbers == self.present

    @property
    def is_constant(self) -> bool:
        """Whether all rows have the same value."""
        return len(self.values) == 1 and not self.truncated and not self.missing

    @property
    def is_free_text(self) -> bool:
        """Whether the values read like sentences."""
        texts = list(self.values)
        words = [len(text.split()) for text in texts]
        long = sum(
            n >= MIN_WORDS or (n > 1 and len(text) >= MIN_CHARACTERS) for n, text in zip(words, texts, strict=True)
        )
        return len(texts) > MIN_TEXTS and long > len(texts) / 2


def column_profiles(
    source: Source, watch: Callable[[Mapping[str, pa.Array]], None] = lambda batch: None
) -> list[ColumnProfile]:
    """Every column after one pass; ``watch`` is called with every batch."""
    profiles = [ColumnProfile(name) for name in source.columns]
    for batch in source.batches():
        watch(batch)
        for profile in profiles:
            profile.add(batch[profile.name])
    return profiles
