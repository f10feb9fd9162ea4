"""Features of many rows in little memory: slice by slice, and again in the backward pass."""

from typing import Any

import torch
from torch import Tensor, nn


def recomputed(features: nn.Module, x: Tensor, rows: int) -> Tensor:
    """features(x), whose backward pass computes each slice of ``rows`` rows again instead of having kept it.

    Values and gradients by the module's parameters are those of ``features(x)``; x itself gets no gradient.
    """
    parameters = [p for p in features.parameters() if p.requires_grad]
    return _Recomputed.apply(features, rows, x, *parameters)  # type: ignore[no-untyped-call]


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: nn.Module, rows: int, x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.features, ctx.rows, ctx.parameters = features, rows, parameters
        ctx.save_for_backward(x)
        ctx.states = []  # of the global generator, so that dropout drops the same units again
        z = torch.empty(0)
        for start in range(0, len(x), rows):
            ctx.states.append(torch.get_rng_state())
            part = features(x[start : start + rows])
            z = z if start else part.new_empty(len(x), *part.shape[1:])
            z[start : start + rows] = part
        return z

    @staticmethod
    def backward(ctx: Any, dz: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        total: list[Tensor] = [torch.zeros_like(p) for p in ctx.parameters]
        slices = zip(x.split(ctx.rows), dz.split(ctx.rows), ctx.states, strict=True)
        for part, upstream, state in slices:
            with torch.enable_grad(), torch.random.fork_rng(devices=[]):
                torch.set_rng_state(state)
                z = ctx.features(part)
            grads = torch.autograd.grad(z, ctx.parameters, upstream, allow_unused=True, materialize_grads=True)
            torch._foreach_add_(total, grads)
        return (None, None, None, *total)
