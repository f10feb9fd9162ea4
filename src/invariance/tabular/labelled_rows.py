"""A table as labelled rows: its columns' roles are decided, its rows encoded, its environments coded."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from invariance.core.errors import BadValue, DataError
from invariance.core.rows import Rows
from invariance.tabular.cells import names, numbers
from invariance.tabular.encoder import Encoder
from invariance.tabular.profile import ColumnProfile, column_profiles
from invariance.tabular.roles import Kind, Role, assign_roles, label_and_environment
from invariance.tabular.source import TableSource, short

MAX_CLASSES, MAX_INTEGER_CLASSES = 100, 20
"""Different values of a label; more whole numbers are amounts, unless the user declares them categorical."""
RARE_CLASS_SHARE = 0.1
"""With two classes, a class with a smaller share of the rows gets a note."""

Names = NDArray[np.object_]


@dataclass(frozen=True)
class Schema:
    """A training table, the roles of its columns, the encoder that was learned from them.

    ``counts`` is the number of labelled rows of each environment.
    """

    source: TableSource
    roles: tuple[Role, ...]
    encoder: Encoder
    counts: Mapping[str, int]


def infer_schema(
    source: TableSource,
    label: str | None = None,
    environment: str | None = None,
    stated: Mapping[str, Kind] | None = None,
) -> Schema:
    """Read a training table once and decide the role of each column, unless the user has ``stated`` it."""
    path = source.path
    label, environment = label_and_environment(source, label, environment, stated or ())
    _refuse_roles(label, environment, stated or {})
    counted = _EnvironmentCounts(label, environment, path.stem)
    profiles = column_profiles(source, counted.add)
    if not profiles[0].rows:
        raise DataError(f"{path} has a header and no rows")
    if any(profile.name in (label, environment) and profile.unusable for profile in profiles):
        raise DataError(f"label and environment must be numbers or names; {path} holds something else")
    target = next(profile for profile in profiles if profile.name == label)
    numeric = is_amount(target, (stated or {}).get(label))
    _check_label(path, target, numeric=numeric)
    other = f"classes with --categorical {short(label, quoted=False)}"
    why = f"numbers to predict (regression); {other}" if numeric else f"{len(target.values)} classes"
    roles = tuple(
        replace(role, why=why) if role.kind == "label" else role
        for role in assign_roles(profiles, label, environment, stated)
    )
    counts = counted.numbers if numeric else counted.names
    return Schema(source, roles, Encoder.fit(profiles, roles, numeric_label=numeric), counts)


def _refuse_roles(label: str, environment: str | None, stated: Mapping[str, Kind]) -> None:
    """Refuse another role for the label or the environment, which may be numbers or categories."""
    for role, name in (("label", label), ("environment", environment)):
        if name and (kind := stated.get(name)) not in (None, "numeric", "categorical"):
            raise BadValue(f"{short(name)} is the {role} and cannot be {kind}; name it in one option alone")


class _EnvironmentCounts:
    """How many rows of each environment have a label, and how many have one that is a number."""

    def __init__(self, label: str, environment: str | None, single: str) -> None:
        self.label, self.environment, self.single = label, environment, single
        self.names: Counter[str] = Counter()
        self.numbers: Counter[str] = Counter()

    def add(self, batch: Mapping[str, pa.Array]) -> None:
        """Count some more rows."""
        labels = batch[self.label]
        where = names(batch[self.environment]) if self.environment else None
        for counter, keep in ((self.names, _filled(names(labels))), (self.numbers, np.isfinite(numbers(labels)))):
            if where is None:
                counter[self.single] += int(keep.sum())
                continue
            for cell in where.filter(pa.array(keep)).drop_null().value_counts().to_pylist():
                counter[cell["values"]] += cell["counts"]


class LabelledBatches:
    """The labelled rows of a table in batches, and notes on what was left out.

    Rows without a label or an environment are left out. Without a column of environments, the file is one environment.
    """

    def __init__(self, source: TableSource, encoder: Encoder, environment: str | None = None) -> None:
        self.source, self.encoder = source, encoder
        self.label = source.require(encoder.label)
        known = encoder.environment if encoder.environment in source.columns else None
        self.environment = source.require(environment) if environment else known
        self.left_out = 0
        self.unusable: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Rows]:
        named = [self.label, *([self.environment] if self.environment else [])]
        columns = dict.fromkeys([*self.encoder.to_read(self.source), *named])
        for batch in self.source.batches(list(columns)):
            y = numbers(batch[self.label]) if self.encoder.numeric_label else names(batch[self.label])
            keep = np.isfinite(y) if isinstance(y, np.ndarray) else _filled(y)
            where = names(batch[self.environment]) if self.environment else None
            keep = keep if where is None else keep & _filled(where)
            self.left_out += int((~keep).sum())
            single = np.array([self.source.path.stem], dtype=object), np.zeros(int(keep.sum()), np.int64)
            environments, codes = single if where is None else _coded(where.filter(pa.array(keep)))
            labels = y[keep] if isinstance(y, np.ndarray) else _decoded(y.filter(pa.array(keep)))
            x = self.encoder.encode(batch, self.unusable)
            yield Rows(x if keep.all() else x[keep], labels, codes, environments)

    @property
    def notes(self) -> tuple[str, ...]:
        """On the rows that were read so far."""
        named = " or ".join(map(short, filter(None, (self.label, self.environment))))
        skipped = (f"{self.left_out:,} rows without {named} were left out",) if self.left_out else ()
        return (*skipped, *self.encoder.notes(self.unusable))


def read(source: TableSource, encoder: Encoder, environment: str | None = None) -> Rows:
    """All labelled rows, environments sorted by name."""
    batches = LabelledBatches(source, encoder, environment)
    parts = list(batches)
    if not any(map(len, parts)):
        missing = " and ".join(map(short, filter(None, (batches.label, batches.environment))))
        raise DataError(f"{source.path} has no row with a value in {missing}")
    rows = _joined([part for part in parts if len(part)])
    rare = () if encoder.numeric_label else imbalance(*np.unique(rows.y, return_counts=True))
    return replace(rows, notes=(*batches.notes, *rare), parts=tuple(encoder.parts))


def _joined(parts: Sequence[Rows]) -> Rows:
    """All rows in their order, with one code per environment, sorted by name."""
    names = sorted({name for part in parts for name in part.names.tolist()})
    place = {name: code for code, name in enumerate(names)}
    codes = [np.array([place[name] for name in part.names], np.int64)[part.codes] for part in parts]
    x = np.concatenate([np.asarray(part.x) for part in parts])
    y = np.concatenate([part.y for part in parts])
    return Rows(x, y, np.concatenate(codes), np.array(names, dtype=object))


def _coded(texts: pa.Array) -> tuple[Names, NDArray[np.int64]]:
    """The different names in a batch, in the order in which they occur, and the integer code of each cell, [n]."""
    encoded = texts.dictionary_encode()
    return np.array(encoded.dictionary.to_pylist(), dtype=object), encoded.indices.to_numpy().astype(np.int64)


def _decoded(texts: pa.Array) -> Names:
    """Names as objects, each different one made once."""
    different, codes = _coded(texts)
    return different[codes]


def _filled(texts: pa.Array) -> NDArray[np.bool_]:
    filled: NDArray[np.bool_] = texts.is_valid().to_numpy(zero_copy_only=False)
    return filled


def imbalance(classes: NDArray[Any], counts: NDArray[np.int64]) -> tuple[str, ...]:
    """A note where a class is rare."""
    rarest, rows = int(counts.argmin()), int(counts.sum())
    if len(classes) < 2 or counts[rarest] >= RARE_CLASS_SHARE * rows * 2 / len(classes):
        return ()
    share, majority = 100 * counts[rarest] / rows, 100 * counts.max() / rows
    return (
        f"the class {short(classes[rarest])} makes up {share:.2g} % of the rows: always predicting "
        f"{short(classes[counts.argmax()])} has an accuracy of {majority:.1f} %, so compare accuracies with that, "
        "or ask for another metric (--metric auc)",
    )


def is_amount(label: ColumnProfile, stated: Kind | None) -> bool:
    """Whether a label is a number to predict: fractions, or many different numbers, unless the user says otherwise."""
    if stated in ("numeric", "categorical") or not label.is_numeric:
        return stated == "numeric"
    return len(label.values) > MAX_INTEGER_CLASSES or any(map(_is_fraction, label.values))


def _check_label(path: Path, label: ColumnProfile, *, numeric: bool) -> None:
    """Refuse a label that does not vary, one of too many classes, and words where a number is to be predicted."""
    values, what = label.values, f"the label {short(label.name)} of {path}"
    if not values:
        raise DataError(f"{what} has no value in any row")
    if len(values) == 1:
        only = short(next(iter(values)))
        raise DataError(f"{what} is {only} in every row; at least two {'values' if numeric else 'classes'} are needed")
    if numeric and not label.finite:
        raise DataError(
            f"{what} holds no number, such as {short(next(iter(values)))}; leave out --numeric to name classes"
        )
    if not numeric and len(values) > min(MAX_CLASSES, max(2, values.total() // 2)):
        raise DataError(
            f"{what} has {len(values):,} different values; expected numbers, or at most {MAX_CLASSES} classes: "
            "group them"
        )


def _is_fraction(value: str) -> bool:
    try:
        return not float(value).is_integer()
    except ValueError:  # true and false are numbers too
        return False
