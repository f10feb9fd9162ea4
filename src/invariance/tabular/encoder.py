"""Rows as numbers: what was learned from the columns of a training table, as plain data that is saved with a model."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from invariance.core.errors import BadValue
from invariance.core.fields import STRICT
from invariance.tabular.columns import Column, Encoded, learned
from invariance.tabular.profile import ColumnProfile
from invariance.tabular.roles import INPUTS, Role
from invariance.tabular.source import Source, short


@dataclass(frozen=True, config=STRICT)
class Encoder:
    """The columns that a model reads, in the order in which it reads them, and what it was trained to predict."""

    label: str
    environment: str | None
    columns: tuple[Encoded, ...]
    numeric_label: bool = False
    """Whether the label is a number to predict; otherwise it names a class."""
    unused: tuple[str, ...] = ()
    """Columns that the model does not use; a table need not have them."""
    version: Literal[1] = 1

    @classmethod
    def fit(cls, profiles: Sequence[ColumnProfile], roles: Sequence[Role], *, numeric_label: bool = False) -> "Encoder":
        """Learn the encoding from the profiles of the training columns and their roles."""
        kinds = {role.name: role.kind for role in roles}
        by_name = {profile.name: profile for profile in profiles}
        named = {kind: next((n for n, k in kinds.items() if k == kind), None) for kind in ("label", "environment")}
        columns = tuple(learned(by_name[n], k) for n, k in kinds.items() if k in INPUTS)
        return cls(named["label"] or "", named["environment"], columns, numeric_label)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of all inputs."""
        return tuple(feature for column in self.columns for feature in column.features)

    @property
    def places(self) -> Iterator[tuple[Column, slice]]:
        """Every column and the slice of its inputs in a row."""
        start = 0
        for column in self.columns:
            yield column, slice(start, start + len(column.features))
            start += len(column.features)

    @property
    def parts(self) -> Iterator[tuple[str, slice]]:
        """The inputs that mean something only together, by name; a column has one such part or several."""
        start = 0
        for name, size in (part for column in self.columns for part in column.parts):
            yield name, slice(start, start + size)
            start += size

    def leaving_out(self, inputs: Iterable[int]) -> "Encoder":
        """The encoder of a model that leaves out some inputs; a column of nothing else is not used."""
        left_out = set(inputs)
        unused = (c.name for c, place in self.places if left_out.issuperset(range(place.start, place.stop)))
        return replace(self, unused=tuple(unused))

    def to_read(self, source: Source) -> list[str]:
        """The columns to read from a table: all, but those that are neither used nor there."""
        return [c.name for c in self.columns if c.name in source.columns or c.name not in self.unused]

    def encode(
        self, batch: Mapping[str, pa.Array], unusable: Counter[str], dtype: type[np.floating[Any]] = np.float32
    ) -> NDArray[Any]:
        """Some rows as numbers, [n, features]; ``unusable`` counts the cells of each column that cannot be encoded.

        A column that is not used and not there is zero.
        """
        rows = len(next(iter(batch.values())))
        columns = np.empty((len(self.features), rows), dtype)  # a column at a time: its numbers lie side by side
        for column, place in self.places:
            if column.name in batch or column.name not in self.unused:
                unusable[column.name] += column.encode(batch[column.name], columns[place].T)
            else:
                columns[place] = 0.0
        return torch.from_numpy(columns).T.contiguous().numpy()  # block by block, which numpy does not

    def notes(self, unusable: Counter[str]) -> tuple[str, ...]:
        """On cells that could not be encoded."""
        what = {column.name: column.unusable for column in self.columns}
        return tuple(
            f"{short(n)}: {cells:,} {'cell' if cells == 1 else 'cells'} with {what[n]}"
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
