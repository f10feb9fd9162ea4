"""Activation checkpointing over rows: slices are computed one by one, and again in the backward pass."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from invariance.core.device import device_of
from invariance.core.inputs import Inputs, floats


def checkpoint_slices(features: nn.Module, x: Inputs, rows: int) -> Tensor:
    """features(x), whose activations are not stored: the backward pass computes each slice of ``rows`` rows again.

    Values and gradients by the module's parameters are those of ``features(x)``; x itself gets no gradient.
    """
    parameters = [p for p in features.parameters() if p.requires_grad]
    return _CheckpointSlices.apply(features, rows, x, *parameters)  # type: ignore[no-untyped-call]


def concatenate(parts: Iterable[Tensor], rows: int) -> Tensor:
    """torch.cat of parts with ``rows`` rows in all; each is freed before the next is made, as parts kept until the end
    would fragment the heap.
    """
    result, start = torch.empty(0), 0
    for part in parts:
        result = result if start else part.new_empty(rows, *part.shape[1:])
        result[start : start + len(part)] = part
        start += len(part)
    return result


class _CheckpointSlices(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: nn.Module, rows: int, x: Inputs, *parameters: Tensor) -> Tensor:
        ctx.features, ctx.rows, ctx.parameters, ctx.x = features, rows, parameters, x
        ctx.seed = torch.initial_seed() % 2**62  # a number: a stored tensor per slice would fragment the heap
        return concatenate((_pass(features, x[i : i + rows], ctx.seed + i) for i in range(0, len(x), rows)), len(x))

    @staticmethod
    def backward(ctx: Any, dz: Tensor) -> tuple[Tensor | None, ...]:
        x = ctx.x
        total: list[Tensor] = [torch.zeros_like(p) for p in ctx.parameters]
        for start in range(0, len(x), ctx.rows):
            part = slice(start, start + ctx.rows)
            with torch.enable_grad():
                z = _pass(ctx.features, x[part], ctx.seed + start)
            grads = torch.autograd.grad(z, ctx.parameters, dz[part], allow_unused=True, materialize_grads=True)
            torch._foreach_add_(total, grads)
        return (None, None, None, *total)


def _pass(features: nn.Module, x: Inputs, seed: int) -> Tensor:
    """One slice; dropout drops the same units whenever the seed is the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return features(floats(x, device_of(features)))
