"""The cells of one column as numbers or as text."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?$"
MAX_FLOAT32 = float(np.finfo(np.float32).max)
"""Models compute with 32 bits."""


def unusable(kind: pa.DataType) -> str:
    """Why a column of Parquet holds neither numbers nor names nor dates; empty if it does."""
    if isinstance(kind, pa.BaseExtensionType):
        return unusable(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return unusable(kind.value_type)
    if pa.types.is_nested(kind):
        return "lists"
    usable = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_null)
    return "" if is_text(kind) or any(test(kind) for test in (*usable, pa.types.is_temporal)) else str(kind)


def numbers(column: pa.Array) -> NDArray[np.float64]:
    """Every cell as a number, [n]: infinite where it is too large, NaN where it is missing or a word."""
    column = _plain(column)
    if unusable(column.type) or _is_date(column.type):
        return np.full(len(column), np.nan)
    if is_text(column.type):
        column = _parsed(column)
    elif pa.types.is_boolean(column.type) or pa.types.is_duration(column.type):
        column = pc.cast(column, pa.int64())
    values = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if pa.types.is_float32(column.type):
        return values
    large = np.abs(values) > MAX_FLOAT32
    return np.where(large, np.inf, values) if large.any() else values


def all_finite(values: NDArray[np.float64]) -> bool:
    """Whether all of some :func:`numbers` are finite: only then is their sum, which takes one pass and no memory."""
    return bool(np.isfinite(values.sum()))


def names(column: pa.Array) -> pa.Array:
    """Every cell as a name, null where it is missing. A whole number is the same name in every kind of file."""
    column = _plain(column)
    if unusable(column.type):
        return pa.nulls(len(column), pa.string())
    column = pc.utf8_trim_whitespace(pc.cast(column, pa.string()))
    column = pc.replace_substring_regex(column, r"^([+-]?\d+)\.0*$", r"\1")
    return pc.if_else(pc.is_in(column, value_set=pa.array(["", "nan"])), pa.scalar(None, pa.string()), column)


def vectors(column: pa.Array, width: int) -> NDArray[np.float64]:
    """Lists of ``width`` numbers, [n, width]; NaN where a list is missing or has another length."""
    column = _plain(column)
    rows = np.full((len(column), width), np.nan)
    fits = pc.equal(pc.list_value_length(column), width).fill_null(False).to_numpy(zero_copy_only=False)
    flat = pc.list_flatten(column.filter(pa.array(fits)))
    rows[fits] = numbers(flat).reshape(-1, width)
    return rows


def list_width(column: pa.Array) -> int:
    """The length of the lists of numbers in a column, if all have the same; otherwise 0."""
    kind = _plain(column).type
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(test(kind) for test in lists) or not _is_number(kind.value_type):
        return 0
    lengths = pc.unique(pc.drop_null(pc.list_value_length(_plain(column)))).to_pylist()
    return int(lengths[0]) if len(lengths) == 1 else 0


def counts(column: pa.Array, max_values: int) -> Counter[str]:
    """How often each name occurs; at most ``max_values`` different cells are counted, the first ones."""
    cells = _plain(column).value_counts()[:max_values]
    by_name: Counter[str] = Counter()
    for name, count in zip(names(cells.field("values")).to_pylist(), cells.field("counts").to_pylist(), strict=True):
        if name is not None:
            by_name[name] += count
    return by_name


def _plain(column: pa.Array) -> pa.Array:
    column = column.storage if isinstance(column, pa.ExtensionArray) else column
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_date(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind)) and not pa.types.is_duration(kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text."""
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def _parsed(column: pa.Array) -> pa.Array:
    """Text as numbers: all at once where every cell is one, otherwise those that are."""
    try:
        return pc.cast(column, pa.float64())
    except pa.ArrowInvalid:
        column = pc.utf8_trim_whitespace(pc.cast(column, pa.string()))
        fits = pc.match_substring_regex(column, NUMBER)
        return pc.cast(pc.if_else(fits, column, pa.scalar(None, pa.string())), pa.float64())
