"""The graph of a model: columns, network, and the names of classes."""

import json
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from invariance import __version__
from invariance.exports.base import FileInput
from invariance.exports.exportable import Exportable
from invariance.exports.onnx_graph.columns import ColumnGraph
from invariance.exports.onnx_graph.network import TYPES, NetworkGraph
from invariance.tabular.columns import TextColumn

OPSET, ML_OPSET = 21, 4
"""Versions of the operators, which runtimes of 2024 and later know."""
X, JOINED = "x", "network/x"


class Built(NamedTuple):
    """A model in ONNX, what it takes and gives, and what a user should know."""

    model: onnx.ModelProto
    inputs: tuple[FileInput, ...]
    outputs: tuple[FileInput, ...]
    notes: tuple[str, ...]


def build(model: Exportable) -> Built:
    """The graph from raw columns, or from an array x, to predictions."""
    network = NetworkGraph(model, JOINED)
    columns = [ColumnGraph(c, TYPES[model.dtype]) for c in model.encoder.columns] if model.encoder else []
    inputs, join = _inputs(model, columns)
    outputs, names, last = _outputs(model, network.output)
    graph = helper.make_graph(
        [node for column in columns for node in column.nodes] + [join, *network.nodes, *last.nodes],
        "invariance",
        inputs,
        outputs,
        [c for column in columns for c in column.constants] + [*network.constants, *last.constants],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    built = helper.make_model(
        graph, opset_imports=opsets, ir_version=10, producer_name="invariance", producer_version=__version__
    )
    if model.classes is not None:
        helper.set_model_props(built, {"classes": json.dumps([str(name) for name in model.classes])})
    onnx.checker.check_model(built, full_check=True)
    texts = [column.column.name for column in columns if isinstance(column.column, TextColumn)]
    notes = tuple(f"{name}: ONNX cannot hash words; give the inputs that encoder_ makes of them" for name in texts)
    takes = tuple(column.about for column in columns) or (_array(model),)
    return Built(built, takes, names, notes)


def _inputs(model: Exportable, columns: list[ColumnGraph]) -> tuple[list[onnx.ValueInfoProto], onnx.NodeProto]:
    """The inputs of the file, and the node that joins them to the network's."""
    if columns:
        join = helper.make_node("Concat", [column.output for column in columns], [JOINED], name="columns", axis=1)
        return [column.input for column in columns], join
    whole = helper.make_tensor_value_info(X, TYPES[model.dtype], ["n", *model.shape])
    return [whole], helper.make_node("Identity", [X], [JOINED], name="rows")


class _Last(NamedTuple):
    nodes: list[onnx.NodeProto]
    constants: list[onnx.TensorProto]


def _outputs(model: Exportable, answers: str) -> tuple[list[onnx.ValueInfoProto], tuple[FileInput, ...], _Last]:
    """The prediction of every row, with the probability of each class where there are classes."""
    if model.classes is None:
        axes = numpy_helper.from_array(np.array([1], np.int64), "last/axes")
        nodes = [helper.make_node("Squeeze", [answers, axes.name], ["prediction"], name="last/prediction")]
        values = [helper.make_tensor_value_info("prediction", TensorProto.DOUBLE, ["n"])]
        return values, (FileInput("prediction", "float64 [n]", "the expected number"),), _Last(nodes, [axes])
    names = _class_names(model)
    kind = names.data_type
    nodes = [
        helper.make_node("Identity", [answers], ["probability"], name="last/probability"),
        helper.make_node("ArgMax", [answers], ["last/code"], name="last/code", axis=1, keepdims=0),
        helper.make_node("Gather", [names.name, "last/code"], ["prediction"], name="last/prediction", axis=0),
    ]
    values = [
        helper.make_tensor_value_info("prediction", kind, ["n"]),
        helper.make_tensor_value_info("probability", TensorProto.DOUBLE, ["n", len(model.classes)]),
    ]
    told = (
        FileInput("prediction", f"{'text' if kind == TensorProto.STRING else 'number'} [n]", "the most probable class"),
        FileInput("probability", f"float64 [n, {len(model.classes)}]", ", ".join(map(str, model.classes))),
    )
    return values, told, _Last(nodes, [names])


def _class_names(model: Exportable) -> onnx.TensorProto:
    """The classes as a constant: whole numbers, numbers or text."""
    values = np.asarray(model.classes)
    if values.dtype.kind in "biu":
        values = values.astype(np.int64)
    elif values.dtype.kind != "f":
        values = values.astype(str).astype(object)
    return numpy_helper.from_array(values, "last/classes")


def _array(model: Exportable) -> FileInput:
    kind = str(model.dtype).removeprefix("torch.")
    about = "images in [0, 1]" if len(model.shape) == 3 else "rows of numbers"
    return FileInput(X, f"{kind} [n, {', '.join(map(str, model.shape))}]", about)
