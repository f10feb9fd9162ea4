"""Environments from the shapes in which other packages hold their data: arrays with metadata, or columns by name."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from invariance.core.environment import Environment
from invariance.core.errors import BadValue, UnknownName


def environments_from_arrays(
    x: Any,
    y: Any,
    metadata: Any,
    *,
    fields: Sequence[str] = ("environment",),
    by: str | Sequence[str] | None = None,
    names: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Environment, ...]:
    """Environments of arrays whose rows have metadata, as in WILDS: ``metadata`` [n, m] of whole numbers, or [n].

    ``fields`` are the names of the columns of metadata, ``by`` those that make an environment (default: all), and
    ``names`` what their numbers stand for (WILDS: ``metadata_map``). Environments come in the order of their numbers.

    Example:
        >>> x, y, hospital = np.zeros((4, 2)), np.array([0, 1, 1, 0]), np.array([[3], [0], [0], [3]])
        >>> [(e.name, len(e)) for e in environments_from_arrays(x, y, hospital, fields=["hospital"])]
        [('hospital=0', 2), ('hospital=3', 2)]

    """
    rows = _array(metadata)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or rows.shape[1] != len(fields):
        raise BadValue(f"metadata has shape {rows.shape}; expected [n, {len(fields)}], a column for each of the fields")
    wanted = fields if by is None else [by] if isinstance(by, str) else by
    for name in wanted:
        if name not in fields:
            raise UnknownName.of("field of metadata", name, fields)
    groups, codes = np.unique(rows[:, [list(fields).index(name) for name in wanted]], axis=0, return_inverse=True)
    labels = [_label(wanted, group, names or {}) for group in groups.tolist()]
    return _split(_array(x), _array(y), codes.reshape(-1), labels)


def environments_from_dataset(
    dataset: Any, *, inputs: str | Sequence[str], label: str, environment: str
) -> tuple[Environment, ...]:
    """Environments of a Hugging Face dataset, or of anything that gives a column by its name.

    ``inputs`` are columns of numbers, or one column whose cells are lists or arrays of one shape. Columns of text go
    into an estimator instead, which takes such a dataset as X.
    """
    columns = getattr(dataset, "column_names", None) or list(dataset)
    single = isinstance(inputs, str)
    wanted = [inputs] if single else list(inputs)
    for name in (*wanted, label, environment):
        if name not in columns:
            raise UnknownName.of("column of the dataset", str(name), columns)
    parts = [_numbers(dataset[name], str(name)) for name in wanted]
    x = parts[0] if single and parts[0].ndim > 1 else np.stack(parts, axis=1)
    labels, codes = np.unique(np.asarray(dataset[environment]).astype(str), return_inverse=True)
    return _split(x, _numbers(dataset[label], label), codes, labels.tolist())


def _split(x: NDArray[Any], y: NDArray[Any], codes: NDArray[Any], names: Sequence[str]) -> tuple[Environment, ...]:
    if not len(x) == len(y) == len(codes):
        raise BadValue(f"inputs, targets and metadata have {len(x)}, {len(y)} and {len(codes)} rows; expected as many")
    inputs = torch.from_numpy(x if x.dtype == np.uint8 else x.astype(np.float32))
    targets = torch.from_numpy(y)
    rows = [torch.from_numpy(np.flatnonzero(codes == code)) for code in range(len(names))]
    return tuple(Environment(name, inputs[own], targets[own]) for name, own in zip(names, rows, strict=True))


def _label(fields: Sequence[str], group: Sequence[int], names: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(
        str(names[field][code]) if field in names else f"{field}={code}"
        for field, code in zip(fields, group, strict=True)
    )


def _array(values: Any) -> NDArray[Any]:
    return np.array(values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else values)


def _numbers(values: Any, name: str) -> NDArray[Any]:
    try:
        array = _array(values[:] if not isinstance(values, np.ndarray) else values)
    except ValueError as error:
        raise BadValue(f"column {name!r} holds cells of several shapes ({error}); give them one shape") from None
    if array.dtype.kind not in "biuf":
        raise BadValue(f"column {name!r} holds {array.dtype}, expected numbers; encode it, or give it to an estimator")
    return array
