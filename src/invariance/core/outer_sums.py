"""Sums of outer products over the rows of each environment.

Their gradient by the features of a full batch is as large as these. From autograd it comes as a view, to which other
gradients are not added in place, and that of squares takes three pieces of memory as large. Here it takes one. Each
number is computed from the same numbers in the same order, so by contiguous features its bits are autograd's.
Gradients of a batch of gradients and forward-mode derivatives do not go through it.
"""

from typing import Any, Literal

import torch
from torch import Tensor

from invariance.core.eager import eager, under_autocast

Power = Literal[1, 2]


def outer_sums(a: Tensor, b: Tensor, environments: int, power: Power = 1) -> Tensor:
    """Σ a ⊗ b^power over the rows of each environment, which all have as many: [n, p], [n, q] → [E, p, q]."""
    if not eager() or under_autocast(a):
        return _sums(a, raised(b, power), environments)
    return _OuterSums.apply(a, b, environments, power)  # type: ignore[no-untyped-call]


def raised(b: Tensor, power: Power) -> Tensor:
    """b^power."""
    return b.square() if power == 2 else b


class _OuterSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, environments: int, power: Power) -> Tensor:
        powers = raised(b, power)
        ctx.save_for_backward(a, b, powers)
        ctx.environments, ctx.power = environments, power
        return _sums(a, powers, environments)

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor | None, ...]:
        a, b, powers = ctx.saved_tensors
        if torch.is_grad_enabled():  # for somebody who differentiates once more
            by_b = (_each(a, ctx.environments) @ d).flatten(0, 1)
            return _by_a(d, raised(b, ctx.power), ctx), 2 * b * by_b if ctx.power == 2 else by_b, None, None
        by_a = _by_a(d, powers, ctx) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return by_a, None, None, None
        by_b = torch.empty_like(b)
        torch.bmm(_each(a, ctx.environments), ctx.power * d, out=_each(by_b, ctx.environments))
        return by_a, by_b.mul_(b) if ctx.power == 2 else by_b, None, None


def _by_a(d: Tensor, powers: Tensor, ctx: Any) -> Tensor:
    return (d @ _each(powers, ctx.environments).mT).mT.flatten(0, 1)


def _each(v: Tensor, environments: int) -> Tensor:
    return v.unflatten(0, (environments, -1))


def _sums(a: Tensor, b: Tensor, environments: int) -> Tensor:
    return _each(a, environments).mT @ _each(b, environments)
