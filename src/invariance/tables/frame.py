"""A table in memory as a model needs it: numbers, labels, environments."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from invariance.errors import DataError
from invariance.tables.cells import names
from invariance.tables.encoder import Encoder
from invariance.tables.profile import profiles
from invariance.tables.roles import Kind, Role, assign, naming
from invariance.tables.source import Source, short

CLASSES = 100
"""A label with more different values is no class."""
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

    source: Source
    roles: tuple[Role, ...]
    encoder: Encoder


def understand(
    path: Path, label: str | None = None, environment: str | None = None, wishes: Mapping[str, Kind] | None = None
) -> Understood:
    """Read a training table once and decide what its columns are for."""
    source = Source.open(path)
    label, environment = naming(source, label, environment)
    found = profiles(source, complete=(label, environment or ""))
    if not found[0].rows:
        raise DataError(f"{path} has a header and no rows")
    if any(profile.name in (label, environment) and profile.broken for profile in found):
        raise DataError(f"label and environment need numbers or names; {path} has something else there")
    roles = assign(found, label, environment, wishes)
    _check_classes(path, label, next(p.values for p in found if p.name == label))
    return Understood(source, roles, Encoder.fit(found, roles))


def read(source: Source, encoder: Encoder, environment: str | None = None) -> Frame:
    """All rows with a label and an environment. Without a column of environments, the file is one."""
    site = environment or encoder.environment
    site = site if site in source.columns or environment else None
    named = [encoder.label, *([site] if site else [])]
    parts: list[NDArray[np.float32]] = []
    y, e = _Codes(), _Codes()
    strange: Counter[str] = Counter()
    left_out = 0
    for batch in source.batches([*(column.name for column in encoder.columns), *dict.fromkeys(named)]):
        given = {name: names(batch[name]) for name in named}
        keep = np.logical_and.reduce([given[name].is_valid().to_numpy(zero_copy_only=False) for name in named])
        left_out += int((~keep).sum())
        parts.append(encoder.encode(batch, strange)[keep])
        y.add(given[encoder.label].filter(pa.array(keep)))
        e.add(given[site].filter(pa.array(keep)) if site else pa.array([source.path.stem] * int(keep.sum())))
    if not parts or not sum(map(len, parts)):
        raise DataError(f"{source.path} has no row with {' and '.join(map(short, named))}")
    notes = [f"{left_out:,} rows without {' or '.join(map(short, named))} were left out"] if left_out else []
    found = y.names()
    return Frame(np.concatenate(parts), found, e.names(), (*notes, *encoder.notes(strange), *imbalance(found)))


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


def _check_classes(path: Path, label: str, values: Counter[str]) -> None:
    if not values:
        raise DataError(f"the label {short(label)} of {path} has no value in any row")
    if len(values) == 1:
        only = short(next(iter(values)))
        raise DataError(f"the label {short(label)} of {path} is {only} in every row; two classes are needed")
    if len(values) > min(CLASSES, max(2, values.total() // 2)):
        raise DataError(
            f"the label {short(label)} of {path} has {len(values):,} different values; classes are wanted, at most "
            f"{CLASSES}. Group them, or predict numbers in Python with InvariantRegressor"
        )
