"""Linear layers with a ReLU after each, as one operation.

Autograd between layers costs a small network a part of its step: a node for every operation, and fresh memory for every
result. The function here calls the same kernels on the same numbers in the same order, so values and gradients are
those of the layers, bit for bit; in bf16 they are those of the layers under torch's autocast.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from invariance.core.eager import eager
from invariance.core.inputs import Inputs, floats
from invariance.models.compiled import is_compiled
from invariance.models.scratch import borrowed, has_hooks

threshold_backward = torch.ops.aten.threshold_backward.grad_input


class ReLULayers(nn.Sequential):
    """``nn.Flatten``, then linear layers with a bias, a ReLU after each."""

    def forward(self, x: Tensor) -> Tensor:
        """z, [n, d]."""
        if not self.fusible(x):
            return super().forward(x)  # type: ignore[no-untyped-call]
        return fused(self, None, x, len(x), bf16=torch.is_autocast_enabled(x.device.type))

    def fusible(self, x: Inputs) -> bool:
        """Whether gradients by parameters are wanted and nothing else: not by inputs, no hooks, not compiled."""
        if not (eager() and torch.is_grad_enabled() and len(x)) or (isinstance(x, Tensor) and x.requires_grad):
            return False
        return not is_compiled(self) and not any(has_hooks(module) for module in (self, *self))

    def weights_and_biases(self) -> list[Tensor]:
        """Of all layers, in turn."""
        return [p for layer in self if isinstance(layer, nn.Linear) for p in (layer.weight, layer.bias)]


@dataclass(frozen=True)
class Way:
    """How rows go through the layers: so many at a time, on into a linear head or not, features in bf16 or not."""

    rows: int
    head: bool
    bf16: bool


def fused(layers: ReLULayers, head: nn.Linear | None, x: Inputs, rows: int, *, bf16: bool = False) -> Tensor:
    """Features z [n, d], or outputs f [n, K] where there is a head, in slices of ``rows`` rows."""
    own = [] if head is None else [head.weight, head.bias]
    way = Way(rows, head is not None, bf16)
    return _ReLULayers.apply(way, x, *layers.weights_and_biases(), *own)  # type: ignore[no-untyped-call]


class _ReLULayers(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, way: Way, x: Inputs, *parameters: Tensor) -> Tensor:
        with torch.autocast(parameters[0].device.type, enabled=False):
            ctx.way, ctx.x, ctx.memory, ctx.inputs = way, x, borrowed(), None
            ctx.layers = _lowered(way, parameters)
            out = parameters[-1].new_empty(len(x), len(parameters[-1]))
            ctx.kept = [_forward(ctx, start, out[start : start + way.rows], parameters) for start in _starts(ctx)]
        ctx.save_for_backward(*parameters, *(() if way.head else (out,)))
        return out

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            return None, None, *_differentiable(ctx, d)
        total: list[Tensor] = []
        memory = borrowed()
        slopes = [memory.take((min(ctx.way.rows, len(d)), len(weight)), weight) for weight, _ in ctx.layers]
        for start, kept in zip(reversed(_starts(ctx)), reversed(ctx.kept), strict=True):  # as autograd adds them
            grads = _backward(ctx, start, kept, d[start : start + ctx.way.rows], slopes)
            if total:
                torch._foreach_add_(total, grads)
            total = total or grads
        return None, None, *total


def _starts(ctx: Any) -> range:
    return range(0, len(ctx.x), ctx.way.rows)


def _lowered(way: Way, parameters: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Weight and bias of each layer without the head, in the precision of their products."""
    hidden = parameters[:-2] if way.head else parameters
    lowered = [p.to(torch.bfloat16) for p in hidden] if way.bf16 else hidden
    return list(zip(lowered[::2], lowered[1::2], strict=True))


def _inputs(ctx: Any, start: int) -> Tensor:
    """A slice of the inputs; the only one is kept, of several each is computed again in the backward pass."""
    if ctx.inputs is not None:
        return cast("Tensor", ctx.inputs)
    weight = ctx.layers[0][0]
    found = floats(ctx.x[start : start + ctx.way.rows], weight.device).flatten(1).to(weight.dtype)
    if len(ctx.x) <= ctx.way.rows:
        ctx.inputs = found
    return found


def _forward(ctx: Any, start: int, out: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    """Outputs of a slice into ``out``; the outputs of all layers, without those that are there."""
    way, kept, h = ctx.way, [], _inputs(ctx, start)
    for i, (weight, bias) in enumerate(ctx.layers):
        last = i == len(ctx.layers) - 1 and not (way.head or way.bf16)
        into = out if last else ctx.memory.take((len(h), len(weight)), weight)
        h = torch.addmm(bias, h, weight.t(), out=into).relu_()
        if not last:
            kept.append(h)
    if way.head:
        torch.addmm(parameters[-1], h.to(out.dtype), parameters[-2].t(), out=out)
    elif way.bf16:
        out.copy_(h)
    return kept


def _backward(ctx: Any, start: int, kept: list[Tensor], d: Tensor, slopes: list[Tensor]) -> list[Tensor]:
    """Gradients of all parameters from those by the outputs of a slice; ``slopes`` is memory for those of layers."""
    way, saved, layers = ctx.way, ctx.saved_tensors, ctx.layers
    outputs = kept if len(kept) == len(layers) else [*kept, saved[-1][start : start + way.rows]]
    grads: list[Tensor] = []
    if way.head:
        grads = [d.sum(0), d.t() @ outputs[-1].to(d.dtype)]
        d = d @ saved[-2] if way.bf16 else torch.mm(d, saved[-2], out=slopes[-1][: len(d)])
    for i in reversed(range(len(layers))):
        own = slopes[i][: len(d)]
        if i < len(layers) - 1:
            d = torch.mm(d, layers[i + 1][0], out=own)
        d = threshold_backward(d.to(own.dtype), outputs[i], 0, grad_input=own)
        below = outputs[i - 1] if i else _inputs(ctx, start)
        grads += [d.sum(0).to(saved[0].dtype), (d.t() @ below).to(saved[0].dtype)]
    return grads[::-1]


def _differentiable(ctx: Any, d: Tensor) -> Sequence[Tensor | None]:
    """The gradients as functions that autograd can go through again."""
    parameters = ctx.saved_tensors[: len(ctx.saved_tensors) - (not ctx.way.head)]
    with torch.enable_grad(), torch.autocast(d.device.type, enabled=False):
        h = floats(ctx.x, d.device).flatten(1)
        for weight, bias in _lowered(ctx.way, parameters):
            h = functional.linear(h.to(weight.dtype), weight, bias).relu()
        f = functional.linear(h.to(d.dtype), *parameters[-2:]) if ctx.way.head else h.to(d.dtype)
        return torch.autograd.grad(f, parameters, d, create_graph=True)
