"""A data frame of pandas, polars, pyarrow or Hugging Face as a table in memory, which is read as a file is."""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from invariance.core.errors import BadValue
from invariance.tabular.encoder import Encoder
from invariance.tabular.profile import column_profiles
from invariance.tabular.roles import Kind, assign_roles
from invariance.tabular.source import BATCH_ROWS, Source, short


@dataclass(frozen=True)
class FrameSource(Source):
    """A table in memory."""

    table: pa.Table
    path: Path = Path("X")

    @classmethod
    def of(cls, frame: Any) -> "FrameSource":
        """A frame of pandas or polars, a table of pyarrow, or a dataset of Hugging Face."""
        return cls(_arrow(frame))

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """Their names."""
        return tuple(map(str, self.table.column_names))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, pa.Array]]:
        wanted = self.columns if columns is None else tuple(map(self.require, columns))
        places = [self.columns.index(name) for name in wanted]
        for batch in self.table.to_batches(BATCH_ROWS) or [self.table.schema.empty_table().to_batches()[0]]:
            yield {name: batch.column(place) for name, place in zip(wanted, places, strict=True)}


def is_frame(values: Any) -> bool:
    """Whether the values are a data frame: columns with names and kinds of their own."""
    frame = hasattr(values, "columns") and hasattr(values, "to_numpy")
    return isinstance(values, pa.Table) or frame or _is_dataset(values)


def _is_dataset(values: Any) -> bool:
    """Whether the values are a ``Dataset`` of Hugging Face, which holds a table of pyarrow."""
    return hasattr(values, "column_names") and hasattr(values, "with_format")


def infer_encoder(
    source: Source, stated: Mapping[str, Kind] | None = None, *, label: str = "", environment: str | None = None
) -> Encoder:
    """How to encode a table without a label: the roles of its columns are guessed, unless ``stated``.

    ``label`` and ``environment`` are the names of columns that are given apart.
    """
    if twice := [name for i, name in enumerate(source.columns) if name in source.columns[:i]]:
        raise BadValue(f"{source.path} has two columns called {short(twice[0])}; give one of them another name")
    profiles = column_profiles(source)
    roles = assign_roles(profiles, None, None, stated)
    return replace(Encoder.fit(profiles, roles), label=label, environment=environment)


def encode_table(source: Source, encoder: Encoder, dtype: type[np.floating[Any]]) -> NDArray[Any]:
    """All rows as numbers, [n, features]; warns of cells that cannot be read."""
    unusable: Counter[str] = Counter()
    batches = source.batches(encoder.to_read(source))
    x = np.concatenate([encoder.encode(batch, unusable, dtype) for batch in batches])
    if notes := encoder.notes(unusable):
        warnings.warn("; ".join(notes), UserWarning, stacklevel=4)
    return x


def precision(source: FrameSource, encoder: Encoder) -> type[np.floating[Any]]:
    """64 bits where every input is a number of the frame and one has as many; otherwise 32, as for files."""
    if any(column.kind != "numeric" for column in encoder.columns):
        return np.float32
    kinds = [source.table.schema.field(source.columns.index(column.name)).type for column in encoder.columns]
    return np.float32 if all(kind in (pa.float32(), pa.float16()) for kind in kinds) else np.float64


def _arrow(frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if _is_dataset(frame):
        return frame.with_format("arrow")[:]
    if hasattr(frame, "to_arrow"):
        return frame.to_arrow()
    columns = [as_column(frame.iloc[:, i]) for i in range(frame.shape[1])]
    return pa.Table.from_arrays(columns, names=[str(name) for name in frame.columns])


def as_column(values: Any) -> pa.Array | pa.ChunkedArray:
    """A column of pandas or numpy; where its cells are of several kinds, as text."""
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        missing = values.isna() if hasattr(values, "isna") else [value is None or value != value for value in values]
        return pa.array(
            [None if gone else str(value) for value, gone in zip(values, missing, strict=True)], pa.string()
        )
