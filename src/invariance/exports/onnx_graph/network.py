"""A network as nodes of an ONNX graph: what ``torch.export`` records, one operation after another.

Operations on weights alone are computed here, so that the file holds their result: a mask's product, the mean of heads.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from invariance.core.errors import BadValue
from invariance.exports.exportable import Exportable

TYPES = {torch.float32: TensorProto.FLOAT, torch.float64: TensorProto.DOUBLE}
SAME = {"contiguous.default", "clone.default", "dropout.default", "detach.default", "alias.default"}
"""Operations that change nothing in evaluation."""
PLAIN = {
    "add.Tensor": "Add",
    "sub.Tensor": "Sub",
    "mul.Tensor": "Mul",
    "div.Tensor": "Div",
    "relu.default": "Relu",
    "relu_.default": "Relu",
    "neg.default": "Neg",
    "tanh.default": "Tanh",
    "sigmoid.default": "Sigmoid",
    "exp.default": "Exp",
    "sqrt.default": "Sqrt",
}
"""Operations that ONNX has under another name."""


class NetworkGraph:
    """The nodes from the input ``x`` to ``output``."""

    def __init__(self, model: Exportable, x: str) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.values: dict[str, str | Tensor] = {}
        program = _program(model)
        weights = {**program.state_dict, **program.constants}
        targets = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs}
        for node in program.graph.nodes:
            if node.op == "placeholder":
                target = targets[node.name]
                self.values[node.name] = x if target is None else weights[target].detach()
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                self.output = self._name(node.args[0][0])

    def _call(self, node: torch.fx.Node) -> None:
        operation = str(node.target).removeprefix("aten.")
        if operation.startswith("_assert"):
            return
        inputs = [self.values.get(each.name) for each in node.all_input_nodes]
        if inputs and all(isinstance(value, Tensor) for value in inputs):
            self.values[node.name] = node.target(*self._tensors(node.args), **node.kwargs)  # type: ignore[operator]
        elif operation in SAME:
            self.values[node.name] = self._name(node.args[0])
        elif operation in PLAIN:
            self.values[node.name] = self.add(
                PLAIN[operation], *(self._name(each, node.meta["val"].dtype) for each in node.args)
            )
        elif operation in OPERATIONS:
            self.values[node.name] = OPERATIONS[operation](self, *node.args, **node.kwargs)
        else:
            raise BadValue(
                f"no ONNX is known here for the operation {operation} of this network; use --format torchscript"
            )

    def _tensors(self, args: Any) -> Any:
        """Arguments with constants in place of their nodes."""
        if isinstance(args, torch.fx.Node):
            return self.values[args.name]
        return type(args)(map(self._tensors, args)) if isinstance(args, list | tuple) else args

    def _name(self, value: Any, dtype: torch.dtype | None = None) -> str:
        """The name of a value: of a node, or of a constant that is stored for it, a bare number in ``dtype``."""
        if isinstance(value, torch.fx.Node):
            value = self.values[value.name]
        if isinstance(value, str):
            return value
        tensor = value if isinstance(value, Tensor) else torch.tensor(value, dtype=dtype)
        return self.store(tensor.numpy())

    def store(self, values: np.ndarray) -> str:
        """Store a constant."""
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), f"network/c{len(self.constants)}"))
        return str(self.constants[-1].name)

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; returns the name of its value."""
        name = f"network/{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def linear(self, x: Any, weight: Any, bias: Any = None) -> str:
        """X Wᵀ + b."""
        given = [self._name(each) for each in (x, weight, bias) if each is not None]
        return self.add("Gemm", *given, transB=1)

    def conv2d(self, x: Any, weight: Any, bias: Any = None, *rest: Any) -> str:
        """A convolution with stride, padding, dilation and groups."""
        defaults: tuple[Any, ...] = ([1, 1], [0, 0], [1, 1], 1)
        stride, padding, dilation, groups = [*rest, *defaults[len(rest) :]]
        given = [self._name(each) for each in (x, weight, bias) if each is not None]
        return self.add("Conv", *given, strides=stride, pads=[*padding] * 2, dilations=dilation, group=groups)

    def batch_norm(self, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, *rest: Any) -> str:
        """Normalised by the running statistics."""
        given = [self._name(each) for each in (x, weight, bias, mean, variance)]
        return self.add("BatchNormalization", *given, epsilon=rest[2])

    def group_norm(self, x: Any, groups: int, weight: Any, bias: Any, epsilon: float = 1e-5, *_: Any) -> str:
        """Normalised over groups of channels."""
        given = [self._name(each) for each in (x, weight, bias)]
        return self.add("GroupNormalization", *given, num_groups=groups, epsilon=epsilon)

    def layer_norm(self, x: Any, shape: list[int], weight: Any, bias: Any, epsilon: float = 1e-5, *_: Any) -> str:
        """Normalised over the last axes."""
        given = [self._name(each) for each in (x, weight, bias)]
        return self.add("LayerNormalization", *given, axis=-len(shape), epsilon=epsilon)

    def max_pool2d(self, x: Any, size: list[int], *rest: Any) -> str:
        """The largest value of each window."""
        stride, padding = [*rest, *(size, [0, 0])[len(rest) :]][:2]
        return self.add("MaxPool", self._name(x), kernel_shape=size, strides=stride or size, pads=[*padding] * 2)

    def mean(self, x: Any, axes: list[int], keep: bool = False) -> str:
        """The mean over some axes."""
        return self.add("ReduceMean", self._name(x), self.store(np.array(axes, np.int64)), keepdims=int(keep))

    def cat(self, parts: list[Any], axis: int = 0) -> str:
        """Side by side."""
        return self.add("Concat", *map(self._name, parts), axis=axis)

    def softmax(self, x: Any, axis: int, _: Any = None) -> str:
        """Probabilities."""
        return self.add("Softmax", self._name(x), axis=axis)

    def to(self, x: Any, dtype: torch.dtype, *_: Any) -> str:
        """In another precision."""
        return self.add("Cast", self._name(x), to=TYPES[dtype])

    def flatten(self, x: Any, start: int = 0, end: int = -1) -> str:
        """All axes but the rows' in one."""
        if start != 1 or end != -1:
            raise BadValue("ONNX is known here for a Flatten() of all axes but the first; use --format torchscript")
        return self.add("Flatten", self._name(x), axis=1)

    def index_fill(self, x: Any, axis: int, index: Any, value: float) -> str:
        """One value at some places of an axis, whatever stood there: infinities and gaps too."""
        sizes = [1] * x.meta["val"].dim()
        sizes[axis] = x.meta["val"].shape[axis]
        filled = torch.zeros(sizes, dtype=torch.bool).index_fill_(axis, self._tensors(index), True)
        return self.add("Where", self._name(filled), self._name(value, x.meta["val"].dtype), self._name(x))

    def view(self, x: Any, shape: list[Any]) -> str:
        """In another shape, row by row."""
        sizes = [size if isinstance(size, int) else -1 for size in shape]  # the number of rows is a symbol
        return self.add("Reshape", self._name(x), self.store(np.array(sizes, np.int64)))


OPERATIONS: dict[str, Callable[..., str]] = {
    "linear.default": NetworkGraph.linear,
    "conv2d.default": NetworkGraph.conv2d,
    "batch_norm.default": NetworkGraph.batch_norm,
    "group_norm.default": NetworkGraph.group_norm,
    "layer_norm.default": NetworkGraph.layer_norm,
    "max_pool2d.default": NetworkGraph.max_pool2d,
    "mean.dim": NetworkGraph.mean,
    "cat.default": NetworkGraph.cat,
    "softmax.int": NetworkGraph.softmax,
    "to.dtype": NetworkGraph.to,
    "flatten.using_ints": NetworkGraph.flatten,
    "index_fill.int_Scalar": NetworkGraph.index_fill,
    "view.default": NetworkGraph.view,
    "reshape.default": NetworkGraph.view,
}


def _program(model: Exportable) -> Any:
    """The operations of the network, for any number of rows."""
    rows = ({0: torch.export.Dim("rows")},)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return torch.export.export(model.answers, (model.probe(3),), dynamic_shapes=rows, strict=False)
    except Exception as error:  # whatever a module of a user's own may raise where no numbers are
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadValue(f"torch cannot record this network ({reason}); use --format torchscript") from None
