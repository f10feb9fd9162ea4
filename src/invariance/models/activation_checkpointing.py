"""Features of many rows in little memory: slice by slice, and again in the backward pass."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from invariance.core.inputs import Inputs, floats


def recomputed(features: nn.Module, x: Inputs, rows: int) -> Tensor:
    """features(x), whose backward pass computes each slice of ``rows`` rows again instead of having kept it.

    Values and gradients by the module's parameters are those of ``features(x)``; x itself gets no gradient.
    """
    parameters = [p for p in features.parameters() if p.requires_grad]
    return _Recomputed.apply(features, rows, x, *parameters)  # type: ignore[no-untyped-call]


def filled(parts: Iterable[Tensor], rows: int) -> Tensor:
    """Parts end to end, each copied and gone before the next comes: kept until the end, they would cut up the heap."""
    whole, start = torch.empty(0), 0
    for part in parts:
        whole = whole if start else part.new_empty(rows, *part.shape[1:])
        whole[start : start + len(part)] = part
        start += len(part)
    return whole


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: nn.Module, rows: int, x: Inputs, *parameters: Tensor) -> Tensor:
        ctx.features, ctx.rows, ctx.parameters, ctx.x = features, rows, parameters, x
        ctx.seed = torch.initial_seed() % 2**62  # a number: tensors kept from each slice would cut up the heap
        return filled((_pass(features, x[i : i + rows], ctx.seed + i) for i in range(0, len(x), rows)), len(x))

    @staticmethod
    def backward(ctx: Any, dz: Tensor) -> tuple[Tensor | None, ...]:
        x = ctx.x
        total: list[Tensor] = [torch.zeros_like(p) for p in ctx.parameters]
        for start in range(0, len(x), ctx.rows):
            these = slice(start, start + ctx.rows)
            with torch.enable_grad():
                z = _pass(ctx.features, x[these], ctx.seed + start)
            grads = torch.autograd.grad(z, ctx.parameters, dz[these], allow_unused=True, materialize_grads=True)
            torch._foreach_add_(total, grads)
        return (None, None, None, *total)


def _pass(features: nn.Module, x: Inputs, seed: int) -> Tensor:
    """One slice; dropout drops the same units whenever the seed is the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return features(floats(x))
