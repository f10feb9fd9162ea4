"""The columns of a table as nodes of an ONNX graph: raw cells in, the inputs of the model out, [n, inputs]."""

import math
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from invariance.exports.base import FileInput
from invariance.tabular.cells import MAX_FLOAT32
from invariance.tabular.columns import (
    DAY,
    YEAR,
    CategoricalColumn,
    Column,
    DateColumn,
    NumericColumn,
    TextColumn,
    VectorColumn,
)
from invariance.tabular.dates import TIME_ONLY

MISSING = ("", "nan")
"""Texts that stand for a missing category, as in tables."""
NAMES: dict[int, str] = {TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64", TensorProto.STRING: "text"}


class ColumnGraph:
    """The nodes of one column. ``dtype`` is the type of numbers, as ONNX counts types."""

    def __init__(self, column: Column, dtype: int) -> None:
        self.column, self.dtype = column, dtype
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.made = 0
        self.output = self._encoded()

    @property
    def input(self) -> onnx.ValueInfoProto:
        """The raw cells, under the column's name."""
        kind, width = self.takes
        return helper.make_tensor_value_info(self.column.name, kind, ["n", *width], doc_string=self.about.about)

    @property
    def takes(self) -> tuple[int, tuple[int, ...]]:
        """The type of cells, and the numbers in one if they are lists."""
        match self.column:
            case CategoricalColumn():
                return TensorProto.STRING, ()
            case DateColumn():
                return TensorProto.DOUBLE, ()
            case TextColumn() | VectorColumn():
                return self.dtype, (len(self.column.features),)
            case NumericColumn():
                return self.dtype, ()

    @property
    def about(self) -> FileInput:
        """What the column takes, in words."""
        match self.column:
            case NumericColumn():
                words = "numbers; NaN where missing"
            case CategoricalColumn():
                words = "categories as text without spaces around it; empty where missing"
            case DateColumn(format=format_):
                since = "midnight" if format_ == TIME_ONLY else "1970-01-01, local time"
                words = f"seconds since {since}; NaN where missing"
            case TextColumn():
                words = "hashed word counts, which ONNX cannot compute: the estimator's encoder_ gives them"
            case VectorColumn():
                words = "lists of numbers; NaN where missing"
        kind, width = self.takes
        return FileInput(self.column.name, f"{NAMES[kind]} [n{''.join(f', {w}' for w in width)}]", words)

    def _encoded(self) -> str:
        """Add the nodes of the column; returns the name of its inputs, [n, inputs]."""
        match self.column:
            case NumericColumn():
                return self._numeric(self.column)
            case CategoricalColumn():
                return self._categorical(self.column)
            case DateColumn():
                return self._date(self.column)
            case VectorColumn():
                return self._vector()
            case TextColumn():
                return self.column.name

    def _numeric(self, column: NumericColumn) -> str:
        missing = self._missing(column.name)
        filled = self._node("Where", missing, self._number(column.fill), column.name)
        return self._side_by_side([filled, *([missing] if column.marked else [])])

    def _categorical(self, column: CategoricalColumn) -> str:
        """A code per cell, and a row of the table of codes: levels, another category, missing."""
        levels = len(column.levels)
        keys = [*column.levels, *MISSING]
        codes = [*range(levels), *[levels + 1] * len(MISSING)]
        code = self._node(
            *("LabelEncoder", column.name),
            domain="ai.onnx.ml",
            keys_strings=keys,
            values_int64s=codes,
            default_int64=levels,
        )
        rows = np.zeros((levels + 2, len(column.features)), _numpy(self.dtype))
        rows[:levels, :levels] = np.eye(levels)
        rows[levels, levels : levels + column.rest] = 1
        rows[levels + 1, len(column.features) - column.marked :] = 1
        return self._node("Gather", self._constant(rows), code, axis=0)

    def _date(self, column: DateColumn) -> str:
        """Years since the origin, and the angles of the cycles, in double precision."""
        missing = self._missing(column.name, TensorProto.DOUBLE)
        moment = self._node("Where", missing, self._number(column.origin, TensorProto.DOUBLE), column.name)
        years = self._scaled(self._node("Sub", moment, self._number(column.origin, TensorProto.DOUBLE)), 1 / YEAR)
        parts = [] if column.format == TIME_ONLY else [years]
        zero = self._number(0.0, TensorProto.DOUBLE)
        for period in ((YEAR, 7 * DAY) if column.format != TIME_ONLY else ()) + ((DAY,) if column.hours else ()):
            turns = self._node("Div", moment, self._number(period, TensorProto.DOUBLE))
            angle = self._scaled(self._node("Sub", turns, self._node("Floor", turns)), 2 * math.pi)
            parts += [self._node("Where", missing, zero, self._node(part, angle)) for part in ("Sin", "Cos")]
        return self._side_by_side([*parts, *([missing] if column.marked else [])])

    def _vector(self) -> str:
        """A list with a missing number is a list of zeros."""
        missing = self._node("Cast", self._missing(self.column.name), to=TensorProto.INT32)
        axes = self._constant(np.array([1], np.int64))
        any_missing = self._node("Cast", self._node("ReduceMax", missing, axes, keepdims=1), to=TensorProto.BOOL)
        return self._node("Where", any_missing, self._number(0.0), self.column.name)

    def _missing(self, cells: str, dtype: int | None = None) -> str:
        """Whether each cell is no number, or too large to compute with."""
        large = self._node("Greater", self._node("Abs", cells), self._number(MAX_FLOAT32, dtype))
        return self._node("Or", self._node("IsNaN", cells), large)

    def _side_by_side(self, parts: list[str]) -> str:
        axes = self._constant(np.array([1], np.int64))
        columns = [self._node("Unsqueeze", self._node("Cast", part, to=self.dtype), axes) for part in parts]
        return self._node("Concat", *columns, axis=1)

    def _scaled(self, values: str, factor: float) -> str:
        return self._node("Mul", values, self._number(factor, TensorProto.DOUBLE))

    def _number(self, value: float, dtype: int | None = None) -> str:
        return self._constant(np.array(value, _numpy(self.dtype if dtype is None else dtype)))

    def _constant(self, values: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(values, self._name()))
        return str(self.constants[-1].name)

    def _node(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        name = self._name()
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, domain=domain, **attributes))
        return name

    def _name(self) -> str:
        self.made += 1
        return f"columns/{self.column.name}/{self.made}"


def _numpy(dtype: int) -> Any:
    return helper.tensor_dtype_to_np_dtype(dtype)
