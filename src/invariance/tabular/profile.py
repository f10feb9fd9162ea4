"""What a column holds, learned in one pass over the rows."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from invariance.tabular.cells import counts, is_date, names, numbers, unusable
from invariance.tabular.source import TableSource

MAX_DISTINCT = 5000
"""Different values that are counted; a column with more of them is not categorical."""
MIN_TEXTS, MIN_WORDS, MIN_CHARACTERS = 20, 4, 41
"""Free text has more than so many different values, most of them of so many words or characters."""


@dataclass
class ColumnProfile:
    """A column so far.

    ``values`` counts its names, as long as these are few enough; ``numbers`` how many cells are numbers, ``finite``
    how many of these can be computed with; ``counting`` says whether each number is the last one plus one, as in a
    column of row numbers.
    """

    name: str
    complete: bool = False
    rows: int = 0
    present: int = 0
    numbers: int = 0
    finite: int = 0
    total: float = 0.0
    lowest: float = np.inf
    highest: float = -np.inf
    counting: bool = True
    broken: str = ""
    values: Counter[str] = field(default_factory=Counter)
    many: bool = False

    def add(self, column: pa.Array) -> None:
        """Take some more rows into account."""
        self.rows += len(column)
        self.broken = self.broken or unusable(column.type)
        if self.broken:
            self.present += len(column) - column.null_count
            return
        found = numbers(column)
        finite = found[np.isfinite(found)]
        if len(finite):
            self.counting &= bool(np.all(np.diff(finite) == 1)) and (not self.finite or finite[0] == self.highest + 1)
            self.lowest, self.highest = min(self.lowest, finite.min()), max(self.highest, finite.max())
        numeric, filled = len(found) - int(np.isnan(found).sum()), len(column) - column.null_count
        self.numbers += numeric
        self.finite += len(finite)
        self.total += float(finite.sum())
        self.present += filled if numeric == filled else len(column) - names(column).null_count
        if not self.many:
            self.values.update(counts(column, None if self.complete else 2 * MAX_DISTINCT))
            self.many = len(self.values) > MAX_DISTINCT and not self.complete

    @property
    def missing(self) -> int:
        """Cells without a value."""
        return self.rows - self.present

    @property
    def mean(self) -> float:
        """Of the numbers; 0 where there are none."""
        return self.total / self.finite if self.finite else 0.0

    @property
    def is_numeric(self) -> bool:
        """Whether every value is a number."""
        return self.finite > 0 and self.numbers == self.present

    @property
    def is_constant(self) -> bool:
        """Whether all rows say the same."""
        return len(self.values) == 1 and not self.many and not self.missing

    @property
    def dates(self) -> float:
        """The share of different values that look like dates."""
        return sum(map(is_date, self.values)) / max(len(self.values), 1)

    @property
    def wordy(self) -> bool:
        """Whether the values read like sentences."""
        texts = list(self.values)
        long = sum(len(text.split()) >= MIN_WORDS or len(text) >= MIN_CHARACTERS for text in texts)
        return len(texts) > MIN_TEXTS and long > len(texts) / 2


def column_profiles(source: TableSource, complete: Collection[str] = ()) -> list[ColumnProfile]:
    """Every column after one pass. All values of ``complete`` columns are counted, however many there are."""
    found = [ColumnProfile(name, name in complete) for name in source.columns]
    for batch in source.batches():
        for profile in found:
            profile.add(batch[profile.name])
    return found
