"""The columns that a model reads, each with what was learned about it: how its cells become inputs."""

import math
from typing import Annotated, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field, PositiveInt
from pydantic.dataclasses import dataclass
from sklearn.feature_extraction.text import HashingVectorizer

from invariance.core.errors import DataError
from invariance.core.fields import STRICT
from invariance.tabular.cells import all_finite, names, numbers, vectors
from invariance.tabular.dates import TIME_ONLY, find_format, seconds
from invariance.tabular.profile import ColumnProfile
from invariance.tabular.source import short

MAX_LEVELS = 64
"""Categories of a column that get an input of their own, the most frequent ones."""
WORD_BUCKETS = 256
"""Inputs of a column of free text."""
DAY, YEAR = 86_400.0, 365.25 * 86_400.0
"""In seconds."""

Finite = Annotated[float, Field(allow_inf_nan=False)]
Numbers = NDArray[np.float32] | NDArray[np.float64]
Parts = tuple[tuple[str, int], ...]


@dataclass(frozen=True, config=STRICT)
class NumericColumn:
    """A column of numbers.

    Missing ones are replaced by the mean, and have a second input (``marked``) if training rows had some.
    """

    name: str
    fill: Finite
    marked: bool
    kind: Literal["numeric"] = "numeric"
    unusable: ClassVar[str] = "no finite number, read as missing"

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its inputs."""
        return (self.name, f"{self.name} is missing") if self.marked else (self.name,)

    @property
    def parts(self) -> Parts:
        """The names of its parts, and how many inputs each has."""
        return ((f"{self.name}: value", 1), (f"{self.name} is missing", 1)) if self.marked else ((self.name, 1),)

    def encode(self, column: pa.Array, into: Numbers) -> int:
        """Write the numbers of some rows, [n, features]; returns the number of unusable cells."""
        values = numbers(column)
        if all_finite(values):
            into[:, 0], into[:, 1:] = values, 0
            return 0
        missing = ~np.isfinite(values)
        into[:, 0] = np.where(missing, self.fill, values)
        if self.marked:
            into[:, 1] = missing
        return int(missing.sum()) - names(column).null_count


@dataclass(frozen=True, config=STRICT)
class CategoricalColumn:
    """A column of categories, one-hot encoded: one input per level.

    Rarer categories share one more input (``rest``) if training rows had some, and missing values have one of their own
    (``marked``) if training rows had some. A category that is not in the training data counts as a rare one; without
    rare ones, all its inputs are 0.
    """

    name: str
    levels: tuple[str, ...]
    rest: bool
    marked: bool
    kind: Literal["categorical"] = "categorical"
    unusable: ClassVar[str] = "a category that is not in the training data"

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its inputs."""
        other = (f"{self.name} is another",) if self.rest else ()
        missing = (f"{self.name} is missing",) if self.marked else ()
        return (*(f"{self.name} = {level}" for level in self.levels), *other, *missing)

    @property
    def parts(self) -> Parts:
        """The names of its parts, and how many inputs each has."""
        return ((self.name, len(self.features)),)

    def encode(self, column: pa.Array, into: Numbers) -> int:
        """Write the numbers of some rows, [n, features]; returns the number of cells with an unknown category."""
        texts = names(column)
        place = pc.index_in(texts, value_set=pa.array(self.levels, pa.string())).fill_null(-1).to_numpy()
        missing = texts.is_null().to_numpy(zero_copy_only=False)
        into[:] = 0
        known = np.flatnonzero(place >= 0)
        into[known, place[known]] = 1
        other = (place < 0) & ~missing
        if self.rest:
            into[:, len(self.levels)] = other
        if self.marked:
            into[:, -1] = missing
        return 0 if self.rest else int(other.sum())


@dataclass(frozen=True, config=STRICT)
class DateColumn:
    """A column of dates or times, as numbers.

    Inputs are the years since ``origin`` (the mean of the training dates, in seconds since 1970), and the angles of
    the time of year, the day of the week and, if training rows had times, the hour of the day, each as sine and cosine.
    Missing dates are the origin, with angles of no direction, and have an input of their own (``marked``) if
    training rows had some.
    """

    name: str
    format: str
    origin: Finite
    hours: bool
    marked: bool
    kind: Literal["date"] = "date"
    unusable: ClassVar[str] = "no date of the training table's format, read as missing"

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its inputs."""
        years = () if self.format == TIME_ONLY else (f"{self.name} in years",)
        angles = tuple(f"{self.name}: {of} ({part})" for of in self._cycles for part in ("sin", "cos"))
        return (*years, *angles, *((f"{self.name} is missing",) if self.marked else ()))

    @property
    def parts(self) -> Parts:
        """The names of its parts, and how many inputs each has."""
        years = () if self.format == TIME_ONLY else ((f"{self.name} in years", 1),)
        cycles = tuple((f"{self.name}: {of}", 2) for of in self._cycles)
        return (*years, *cycles, *(((f"{self.name} is missing", 1),) if self.marked else ()))

    @property
    def _cycles(self) -> tuple[str, ...]:
        days = () if self.format == TIME_ONLY else ("time of year", "weekday")
        return (*days, "hour") if self.hours else days

    def encode(self, column: pa.Array, into: Numbers) -> int:
        """Write the numbers of some rows, [n, features]; returns the number of cells that are no date."""
        moments = seconds(column, self.format)
        missing = ~np.isfinite(moments)
        moments = np.where(missing, self.origin, moments)
        turns = {"time of year": moments / YEAR, "weekday": moments / (7 * DAY), "hour": moments / DAY}
        angles = [2 * math.pi * (turns[of] % 1) for of in self._cycles]
        inputs = [] if self.format == TIME_ONLY else [(moments - self.origin) / YEAR]
        inputs += [np.where(missing, 0, part(angle)) for angle in angles for part in (np.sin, np.cos)]
        inputs += [missing] if self.marked else []
        into[:] = np.column_stack(inputs)
        return int(missing.sum()) - names(column).null_count


@dataclass(frozen=True, config=STRICT)
class TextColumn:
    """A column of free text, as hashed word counts.

    A hash of each word (two letters or more, in lower case) chooses one of ``buckets`` inputs and a sign, and the
    counts of a text are scaled to length 1. Words that share a bucket cannot be told apart, and the order of words is
    lost. Missing texts are zeros, and have an input of their own (``marked``) if training rows had some.
    """

    name: str
    marked: bool
    buckets: PositiveInt = WORD_BUCKETS
    kind: Literal["text"] = "text"
    unusable: ClassVar[str] = "no text"

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its inputs."""
        words = tuple(f"{self.name}: words {bucket}" for bucket in range(self.buckets))
        return (*words, f"{self.name} is missing") if self.marked else words

    @property
    def parts(self) -> Parts:
        """The names of its parts, and how many inputs each has."""
        words = (f"{self.name}: words" if self.marked else self.name, self.buckets)
        return (words, (f"{self.name} is missing", 1)) if self.marked else (words,)

    def encode(self, column: pa.Array, into: Numbers) -> int:
        """Write the numbers of some rows, [n, features]; any cell can be encoded."""
        texts = names(column)
        hashing = HashingVectorizer(n_features=self.buckets, norm="l2", dtype=np.float32)
        into[:, : self.buckets] = hashing.transform(texts.fill_null("").to_pylist()).toarray()
        if self.marked:
            into[:, -1] = texts.is_null().to_numpy(zero_copy_only=False)
        return 0


@dataclass(frozen=True, config=STRICT)
class VectorColumn:
    """A column of lists of ``width`` numbers, such as embeddings: one input per number; missing lists are zeros."""

    name: str
    width: PositiveInt
    kind: Literal["vector"] = "vector"
    unusable: ClassVar[str] = "no list of as many finite numbers as in training, read as zeros"

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its inputs."""
        return tuple(f"{self.name}[{i}]" for i in range(self.width))

    @property
    def parts(self) -> Parts:
        """The names of its parts, and how many inputs each has."""
        return tuple((feature, 1) for feature in self.features)

    def encode(self, column: pa.Array, into: Numbers) -> int:
        """Write the numbers of some rows, [n, features]; returns the number of unusable cells."""
        rows = vectors(column, self.width)
        unusable: NDArray[np.bool_] = np.asarray(~np.isfinite(rows).all(1))
        into[:] = np.where(unusable[:, None], 0, rows)
        return int(unusable.sum()) - column.null_count


Column = NumericColumn | CategoricalColumn | DateColumn | TextColumn | VectorColumn
Encoded = Annotated[Column, Field(discriminator="kind")]


def learned(profile: ColumnProfile, kind: str) -> Column:
    """How to encode a column of this kind, learned from its training rows."""
    if kind == "numeric":
        return NumericColumn(profile.name, profile.mean, marked=profile.finite < profile.rows)
    if kind == "date":
        return _date(profile)
    if kind == "text":
        return TextColumn(profile.name, marked=profile.missing > 0)
    if kind == "vector":
        return VectorColumn(profile.name, profile.width)
    common = [name for name, _ in profile.values.most_common(MAX_LEVELS)]
    rest = len(profile.values) > len(common) or profile.truncated
    return CategoricalColumn(profile.name, tuple(sorted(common)), rest=rest, marked=profile.missing > 0)


def _date(profile: ColumnProfile) -> DateColumn:
    """By the dates that were counted; their format must be known."""
    cells = pa.array(list(profile.values), pa.string())
    format_ = find_format(profile.values)
    if format_ is None:
        example = short(next(iter(profile.values), ""), 30)
        raise DataError(f"{short(profile.name)} holds no dates of a known format, such as {example}; write 2021-03-31")
    moments = seconds(cells, format_)
    known = np.isfinite(moments)
    origin = float(np.average(moments[known], weights=np.array(list(profile.values.values()))[known]))
    hours = bool((moments[known] % DAY != 0).any())
    return DateColumn(profile.name, format_, origin, hours, marked=profile.missing > 0 or not known.all())
