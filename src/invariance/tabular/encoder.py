"""Rows as numbers: what was learned from the columns of a training table, as plain data that is saved with a model."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from invariance.core.errors import BadValue
from invariance.core.fields import STRICT
from invariance.tabular.cells import names, numbers
from invariance.tabular.profile import ColumnProfile
from invariance.tabular.roles import Role
from invariance.tabular.source import short

MAX_LEVELS = 64
"""Categories of a column that get an input of their own, the most frequent ones."""


@dataclass(frozen=True, config=STRICT)
class NumericColumn:
    """A column of numbers.

    Missing ones are replaced by the mean, and have a second input (``marked``) if training rows had some.
    """

    name: str
    fill: Annotated[float, Field(allow_inf_nan=False)]
    marked: bool
    kind: Literal["numeric"] = "numeric"

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its inputs."""
        return (self.name, f"{self.name} is missing") if self.marked else (self.name,)

    def encode(self, column: pa.Array, into: NDArray[np.float32]) -> int:
        """Write the numbers of some rows, [n, features]; returns the number of unusable cells."""
        values = numbers(column)
        missing = ~np.isfinite(values)
        into[:, 0] = np.where(missing, self.fill, values)
        if self.marked:
            into[:, 1] = missing
        return int(missing.sum()) - names(column).null_count if missing.any() else 0


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

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its inputs."""
        other = (f"{self.name} is another",) if self.rest else ()
        missing = (f"{self.name} is missing",) if self.marked else ()
        return (*(f"{self.name} = {level}" for level in self.levels), *other, *missing)

    def encode(self, column: pa.Array, into: NDArray[np.float32]) -> int:
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


Encoded = Annotated[NumericColumn | CategoricalColumn, Field(discriminator="kind")]


@dataclass(frozen=True, config=STRICT)
class Encoder:
    """The columns that a model reads, in the order in which it reads them, and what it was trained to predict."""

    label: str
    environment: str | None
    columns: tuple[Encoded, ...]
    version: Literal[1] = 1

    @classmethod
    def fit(cls, profiles: Sequence[ColumnProfile], roles: Sequence[Role]) -> "Encoder":
        """Learn the encoding from the profiles of the training columns and their roles."""
        kinds = {role.name: role.kind for role in roles}
        by_name = {profile.name: profile for profile in profiles}
        named = {kind: next((n for n, k in kinds.items() if k == kind), None) for kind in ("label", "environment")}
        columns = tuple(_column(by_name[n], k) for n, k in kinds.items() if k in ("numeric", "categorical"))
        return cls(named["label"] or "", named["environment"], columns)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of all inputs."""
        return tuple(feature for column in self.columns for feature in column.features)

    @property
    def places(self) -> Iterator[tuple[NumericColumn | CategoricalColumn, slice]]:
        """Every column and the slice of its inputs in a row."""
        start = 0
        for column in self.columns:
            yield column, slice(start, start + len(column.features))
            start += len(column.features)

    def encode(self, batch: Mapping[str, pa.Array], unusable: Counter[str]) -> NDArray[np.float32]:
        """Some rows as numbers, [n, features]; ``unusable`` counts the cells of each column that cannot be encoded."""
        rows = len(batch[self.columns[0].name])
        x = np.empty((rows, len(self.features)), np.float32)
        for column, place in self.places:
            unusable[column.name] += column.encode(batch[column.name], x[:, place])
        return x

    def notes(self, unusable: Counter[str]) -> tuple[str, ...]:
        """On cells that could not be encoded."""
        what = {
            "numeric": "no finite number, read as missing",
            "categorical": "a category that is not in the training data",
        }
        kinds = {column.name: column.kind for column in self.columns}
        return tuple(
            f"{short(n)}: {cells:,} {'cell' if cells == 1 else 'cells'} with {what[kinds[n]]}"
            for n, cells in unusable.items()
            if cells
        )

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        plain: dict[str, Any] = TypeAdapter(Encoder).dump_python(self, mode="json")
        return plain

    @classmethod
    def from_json(cls, plain: object) -> "Encoder":
        """What :meth:`to_json` gave."""
        try:
            return TypeAdapter(Encoder).validate_python(plain)
        except ValidationError as error:
            raise BadValue.of(error, "a table's encoder") from None


def _column(profile: ColumnProfile, kind: str) -> NumericColumn | CategoricalColumn:
    if kind == "numeric":
        return NumericColumn(profile.name, profile.mean, marked=profile.finite < profile.rows)
    common = [name for name, _ in profile.values.most_common(MAX_LEVELS)]
    rest = len(profile.values) > len(common) or profile.truncated
    return CategoricalColumn(profile.name, tuple(sorted(common)), rest=rest, marked=profile.missing > 0)
