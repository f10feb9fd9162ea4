"""Inputs of numpy, pandas, polars and torch as arrays, checked; and rows as environments."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from torch import Tensor

from invariance.core.environment import Environment
from invariance.core.errors import BadValue
from invariance.core.inputs import Inputs, StoredRows
from invariance.core.rows import Rows, coded
from invariance.tabular.encoder import Encoder
from invariance.tabular.frame import FrameSource, as_column, encode_table, infer_encoder, is_frame, precision
from invariance.tabular.roles import Kind

SINGLE = "all"
"""The name of the one environment where none are given."""


class EncodedTable(NamedTuple):
    """A training table as numbers [n, features], its encoder, and the names of its columns."""

    x: NDArray[Any]
    encoder: Encoder
    columns: tuple[str, ...]

    @classmethod
    def learned(
        cls, frame: Any, y: Any = None, environments: Any = None, stated: Mapping[str, Kind] | None = None
    ) -> "EncodedTable":
        """Learn how to encode a frame; the names of ``y`` and ``environments``, if they have names, are kept."""
        source = table_source(frame, None)
        names = [str(getattr(values, "name", None) or "") for values in (y, environments)]
        encoder = infer_encoder(source, stated, label=names[0], environment=names[1] or None)
        return cls(encode_table(source, encoder, precision(source, encoder)), encoder, source.columns)


def table_source(X: Any, columns: Sequence[str] | None) -> FrameSource:
    """A frame as a table; an array, whose columns have no names, as one with these ``columns``."""
    if is_frame(X):
        return FrameSource.of(X)
    array = np.asarray(dense(X))
    if columns is None or array.ndim != 2 or array.shape[1] != len(columns):
        raise BadValue(
            f"X has shape {array.shape} and no names of columns; give a data frame with the training columns"
        )
    return FrameSource.of(pa.table({name: as_column(array[:, i]) for i, name in enumerate(columns)}))


def dense(values: Any) -> Any:
    """Tensors as numpy arrays, everything else as it is; sparse values are refused."""
    if isinstance(values, Tensor):
        if values.layout != torch.strided:
            raise BadValue("X is a sparse tensor, expected a dense one; give X.to_dense()")
        values = values.detach().cpu()
        return (values.float() if values.dtype in (torch.half, torch.bfloat16) else values).numpy()
    if issparse(values):
        raise BadValue("X is a sparse matrix, expected a dense one; give X.toarray(), or drop columns first")
    return values


def column(values: Any, name: str, rows: int) -> NDArray[Any]:
    """One value per row."""
    array = np.asarray(dense(values))
    if array.shape != (rows,):
        raise BadValue(f"{name} has shape {array.shape}; expected one value for each of the {rows} rows")
    return array


def environment_codes(environments: ArrayLike | None, rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The different environments, sorted, and the integer code of each row's environment, [n]."""
    if environments is None:
        return np.array([SINGLE]), np.zeros(rows, dtype=np.int64)
    array = column(environments, "environments", rows)
    values = array.tolist()
    for row, value in enumerate(values):
        if value is None or value != value:
            raise BadValue(f"environments has no value in row {row}; fill it in, or drop the row")
    try:
        return coded(array)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in values})
        raise BadValue(f"environments mixes {' and '.join(kinds)}; give one kind, for example all as text") from None


def checked_weights(sample_weight: Any, rows: int) -> NDArray[np.float64] | None:
    """The weight of each row, or None where all rows count the same."""
    if sample_weight is None:
        return None
    values = np.asarray(dense(sample_weight), dtype=np.float64)
    weight = column(np.full(rows, values) if values.ndim == 0 else values, "sample_weight", rows)
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise BadValue("sample_weight holds a negative or missing number; expected numbers of 0 or more")
    if not weight.any():
        raise BadValue("sample_weight is zero for every row; give at least one row a positive weight")
    return weight


def to_environments(rows: Rows, targets: NDArray[Any]) -> list[Environment]:
    """The rows of each environment with their ``targets`` [n], in the given order; parts of one tensor."""
    sizes, weight = rows.counts, rows.weight
    order = slice(None) if (np.diff(rows.codes) >= 0).all() else np.argsort(rows.codes, kind="stable")
    xs = _parts(rows.x[order], sizes)
    ys = _tensor(targets[order]).split(sizes)
    ws = [None] * len(sizes) if weight is None else _tensor(weight[order]).split(sizes)
    names = [str(name) for name in rows.names.tolist()]
    return [Environment(*parts) for parts in zip(names, xs, ys, ws, strict=True)]


def _tensor(array: NDArray[Any]) -> Tensor:
    """The array itself where torch can take it, else a copy."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def _parts(x: NDArray[Any] | StoredRows, sizes: list[int]) -> Sequence[Inputs]:
    if not isinstance(x, StoredRows):
        return _tensor(x).split(sizes)
    ends = np.cumsum(sizes)
    return [x[int(end) - size : int(end)] for size, end in zip(sizes, ends, strict=True)]


def fingerprint(*arrays: NDArray[Any] | StoredRows | None) -> str:
    """A hash of the data, equal where they are equal row for row."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        if isinstance(array, StoredRows):
            for part in array.split(1024):
                digest.update(part.tensor().numpy().data)
        else:
            digest.update(b"" if array is None else np.ascontiguousarray(array).data)
    return digest.hexdigest()
