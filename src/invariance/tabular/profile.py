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
"""Free text has more than ``MIN_TEXTS`` different values, most of them of at least so many words or characters."""


@dataclass
class ColumnProfile:
    """Statistics of the rows of a column that were read so far.

    ``values`` counts the different values, and is ``truncated`` where there are too many (never in a ``complete``
    profile). ``numbers`` is how many cells are numbers, ``finite`` how many of these can be computed with.
    ``consecutive`` says whether each number is the previous one plus one, as in a column of row numbers. ``unusable``
    is what the column holds if neither numbers nor names.
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
    consecutive: bool = True
    unusable: str = ""
    values: Counter[str] = field(default_factory=Counter)
    truncated: bool = False

    def add(self, column: pa.Array) -> None:
        """Add some more rows."""
        self.rows += len(column)
        self.unusable = self.unusable or unusable(column.type)
        if self.unusable:
            self.present += len(column) - column.null_count
            return
        values = numbers(column)
        finite = values[np.isfinite(values)]
        if len(finite):
            self.consecutive &= bool(np.all(np.diff(finite) == 1)) and (
                not self.finite or finite[0] == self.highest + 1
            )
            self.lowest, self.highest = min(self.lowest, finite.min()), max(self.highest, finite.max())
        numeric, filled = len(values) - int(np.isnan(values).sum()), len(column) - column.null_count
        self.numbers += numeric
        self.finite += len(finite)
        self.total += float(finite.sum())
        self.present += filled if numeric == filled else len(column) - names(column).null_count
        if not self.truncated:
            self.values.update(counts(column, None if self.complete else 2 * MAX_DISTINCT))
            self.truncated = len(self.values) > MAX_DISTINCT and not self.complete

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
    def date_share(self) -> float:
        """The share of different values that look like dates."""
        return sum(map(is_date, self.values)) / max(len(self.values), 1)

    @property
    def is_free_text(self) -> bool:
        """Whether the values read like sentences."""
        texts = list(self.values)
        long = sum(len(text.split()) >= MIN_WORDS or len(text) >= MIN_CHARACTERS for text in texts)
        return len(texts) > MIN_TEXTS and long > len(texts) / 2


def column_profiles(source: TableSource, complete: Collection[str] = ()) -> list[ColumnProfile]:
    """Every column after one pass. All values of ``complete`` columns are counted, however many there are."""
    profiles = [ColumnProfile(name, name in complete) for name in source.columns]
    for batch in source.batches():
        for profile in profiles:
            profile.add(batch[profile.name])
    return profiles
