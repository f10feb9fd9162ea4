"""A table in memory as a model needs it: numbers, labels, environments."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from invariance.core.errors import DataError
from invariance.tabular.cells import names
from invariance.tabular.encoder import Encoder
from invariance.tabular.profile import ColumnProfile, column_profiles
from invariance.tabular.roles import Kind, Role, assign, naming
from invariance.tabular.source import TableSource, short

CLASSES, WHOLE = 100, 20
"""A label with more different values is no class; one with more different whole numbers only if it is said to be."""
RARE = 0.1
"""A class with a smaller share of the rows is worth a word."""

Names = NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class Frame:
    """Rows with a label: numbers ``x`` [n, features], labels ``y`` [n], ``environments`` [n], and what was noticed."""

    x: NDArray[np.float32]
    y: Names
    environments: Names
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Understood:
    """What a training table is: roles of its columns and the encoder that follows from them."""

    source: TableSource
    roles: tuple[Role, ...]
    encoder: Encoder


def understand(
    path: Path, label: str | None = None, environment: str | None = None, wishes: Mapping[str, Kind] | None = None
) -> Understood:
    """Read a training table once and decide what its columns are for."""
    source = TableSource.open(path)
    label, environment = naming(source, label, environment, wishes or ())
    found = column_profiles(source, complete=(label, environment or ""))
    if not found[0].rows:
        raise DataError(f"{path} has a header and no rows")
    if any(profile.name in (label, environment) and profile.broken for profile in found):
        raise DataError(f"label and environment need numbers or names; {path} has something else there")
    roles = assign(found, label, environment, wishes)
    _check_classes(path, next(p for p in found if p.name == label), named=(wishes or {}).get(label) == "categorical")
    return Understood(source, roles, Encoder.fit(found, roles))


class Pieces:
    """The labelled rows of a table, some at a time, and what was noticed on the way.

    Rows without a label or an environment are left out. Without a column of environments, the file is one.
    """

    def __init__(self, source: TableSource, encoder: Encoder, environment: str | None = None) -> None:
        self.source, self.encoder = source, encoder
        self.label = source.need(encoder.label)
        site = encoder.environment if encoder.environment in source.columns else None
        self.site = source.need(environment) if environment else site
        self.left_out = 0
        self.strange: Counter[str] = Counter()

    def __iter__(self) -> Iterator[tuple[NDArray[np.float32], pa.Array, pa.Array]]:
        """Numbers [n, features], labels [n] and environments [n]."""
        named = [self.label, *([self.site] if self.site else [])]
        columns = dict.fromkeys([*(column.name for column in self.encoder.columns), *named])
        for batch in self.source.batches(list(columns)):
            given = {name: names(batch[name]) for name in named}
            keep = np.logical_and.reduce([given[name].is_valid().to_numpy(zero_copy_only=False) for name in named])
            self.left_out += int((~keep).sum())
            labels, rows = given[self.label].filter(pa.array(keep)), int(keep.sum())
            sites = given[self.site].filter(pa.array(keep)) if self.site else pa.array([self.source.path.stem] * rows)
            yield self.encoder.encode(batch, self.strange)[keep], labels, sites

    @property
    def notes(self) -> tuple[str, ...]:
        """What was noticed so far."""
        named = " or ".join(map(short, filter(None, (self.label, self.site))))
        skipped = (f"{self.left_out:,} rows without {named} were left out",) if self.left_out else ()
        return (*skipped, *self.encoder.notes(self.strange))


def read(source: TableSource, encoder: Encoder, environment: str | None = None) -> Frame:
    """All labelled rows."""
    parts: list[NDArray[np.float32]] = []
    y, e = _Codes(), _Codes()
    pieces = Pieces(source, encoder, environment)
    for x, labels, sites in pieces:
        parts.append(x)
        y.add(labels)
        e.add(sites)
    if not any(map(len, parts)):
        wanted = " and ".join(map(short, filter(None, (pieces.label, pieces.site))))
        raise DataError(f"{source.path} has no row with {wanted}")
    found = y.names()
    return Frame(np.concatenate(parts), found, e.names(), (*pieces.notes, *imbalance(found)))


def imbalance(y: Names) -> tuple[str, ...]:
    """A word on classes that are rare."""
    found, counts = np.unique(y, return_counts=True)
    least = int(counts.argmin())
    if len(found) < 2 or counts[least] >= RARE * len(y) * 2 / len(found):
        return ()
    share, most = 100 * counts[least] / len(y), 100 * counts.max() / len(y)
    return (
        f"the class {short(found[least])} makes up {share:.2g} % of the rows: always saying "
        f"{short(found[counts.argmax()])} is right on {most:.1f} %, so read accuracies beside that",
    )


class _Codes:
    """Names of many rows, each different one kept once."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.parts: list[NDArray[np.int64]] = []

    def add(self, texts: pa.Array) -> None:
        encoded = texts.dictionary_encode()
        places = [self.known.setdefault(text, len(self.known)) for text in encoded.dictionary.to_pylist()]
        self.parts.append(np.array(places, np.int64)[encoded.indices.to_numpy()])

    def names(self) -> Names:
        return np.array(list(self.known), dtype=object)[np.concatenate(self.parts)]


def _check_classes(path: Path, label: ColumnProfile, *, named: bool) -> None:
    """Few names or few whole numbers are classes; other numbers are amounts, unless they are said to be names."""
    values, what = label.values, f"the label {short(label.name)} of {path}"
    if not values:
        raise DataError(f"{what} has no value in any row")
    if len(values) == 1:
        only = short(next(iter(values)))
        raise DataError(f"{what} is {only} in every row; two classes are needed")
    if label.is_numeric and not named and (len(values) > WHOLE or any(map(_is_fraction, values))):
        raise DataError(
            f"{what} holds numbers with {len(values):,} different values; classes are wanted, names or at most {WHOLE} "
            f"whole numbers. Group them, say --categorical {short(label.name, quoted=False)} if they are names, or "
            "predict numbers in Python with InvariantRegressor"
        )
    if len(values) > min(CLASSES, max(2, values.total() // 2)):
        raise DataError(
            f"{what} has {len(values):,} different values; classes are wanted, at most "
            f"{CLASSES}. Group them, or predict numbers in Python with InvariantRegressor"
        )


def _is_fraction(value: str) -> bool:
    try:
        return not float(value).is_integer()
    except ValueError:  # true and false are numbers too
        return False
