"""Labels of other data as classes of a model: the same value may be spelled differently in another file."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from invariance.core.errors import DataError
from invariance.core.inputs import StoredRows
from invariance.core.rows import Rows

MAX_NAMES = 5
"""Unknown labels, classes and environments that a message names."""
SEEN = 0.5
"""The share of test rows with the inputs of a training row that is noted."""
FEW = 0.02
"""Of the rows of the median environment; one with fewer rows is noted."""


class LabelMatcher:
    """Finds the class of each label: by its name, else by its value (``01`` is 1, ``yes`` is Yes, ``True`` is true).

    A value that several classes share is found by name alone. ``matched`` counts the labels that were found by value,
    by their spelling.
    """

    def __init__(self, classes: Sequence[str]) -> None:
        self.classes = tuple(classes)
        self.by_name = {name: code for code, name in enumerate(self.classes)}
        shared = Counter(map(_value, self.classes))
        self.by_value = {_value(name): code for name, code in self.by_name.items() if shared[_value(name)] == 1}
        self.matched: dict[str, str] = {}

    def codes(self, labels: NDArray[Any], path: Path) -> NDArray[np.int64]:
        """The number of the class of each label, [n]; a label that is no class is refused by name."""
        names, places = np.unique(np.asarray(labels, dtype=object).astype(str), return_inverse=True)
        known = [self.code(str(name)) for name in names]
        if unknown := [str(name) for name, code in zip(names, known, strict=True) if code is None]:
            raise DataError(
                f"{path} has the label {_listed(unknown)}, which the model was not trained on; its classes are "
                f"{_listed(self.classes)}: correct the labels, or leave these rows out"
            )
        return np.array(known, dtype=np.int64)[places]

    def code(self, name: str) -> int | None:
        """The number of the class of a label; None if it is no class."""
        if name in self.by_name:
            return self.by_name[name]
        code = self.by_value.get(_value(name))
        if code is not None:
            self.matched[name] = self.classes[code]
        return code

    @property
    def notes(self) -> Iterator[str]:
        """On labels that are spelled differently."""
        if self.matched:
            pairs = [f"{other!r} as {name!r}" for other, name in list(self.matched.items())[:MAX_NAMES]]
            yield f"labels are spelled differently than in training, and were read by their value: {', '.join(pairs)}"


def test_rows(rows: Rows, classes: NDArray[Any], path: Path) -> Rows:
    """Test data with the labels of the training data, and notes that say what they are about."""
    matcher = LabelMatcher([str(name) for name in classes])
    codes = matcher.codes(rows.y, path)
    return replace(rows, y=classes[codes], notes=tuple(f"test data: {n}" for n in (*rows.notes, *matcher.notes)))


def seen(rows: Rows, test: Rows) -> tuple[str, ...]:
    """A note where most test rows have the inputs of a training row; rows in a file are not compared."""
    if isinstance(rows.x, StoredRows) or isinstance(test.x, StoredRows):
        return ()
    tested = [row.tobytes() for row in test.x]
    both = set(tested).intersection(row.tobytes() for row in rows.x)
    share = float(np.mean([row in both for row in tested]))
    if share <= SEEN:
        return ()
    return (
        f"test data: {100 * share:.0f} % of the rows have the same inputs as a training row; where they are training "
        "rows, these scores say nothing about others",
    )


def few_rows(rows: Rows) -> tuple[str, ...]:
    """A note on environments that have few rows and count as much as the others."""
    counts = dict(zip(rows.names.tolist(), rows.counts, strict=True))
    median = float(np.median(rows.counts))
    few = [f"{name} ({n:,})" for name, n in counts.items() if n < FEW * median]
    if not few:
        return ()
    more = f" and {len(few) - MAX_NAMES} more" if len(few) > MAX_NAMES else ""
    return (
        f"few {rows.unit} at {', '.join(few[:MAX_NAMES])}{more}: an environment counts as much as any other, here "
        f"one of {median:,.0f} {rows.unit}, whatever its size; leave it out, or join it to another",
    )


def _value(name: str) -> str | float:
    """What a name stands for: a number, or a word in any case."""
    text = name.strip()
    try:
        return float(text) if text.isascii() and "_" not in text else text.casefold()
    except ValueError:
        return text.casefold()


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
    return f"{', '.join(repr(name[:40]) for name in names[:MAX_NAMES])}{more}"
