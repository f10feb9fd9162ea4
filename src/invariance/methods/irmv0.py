"""IRMv0: the gradient by the whole head vanishes in every environment."""

from collections.abc import Callable, Iterator
from typing import ClassVar, final

import torch
from pydantic import NonNegativeInt
from pydantic.dataclasses import dataclass
from torch import Tensor

from invariance.core.batch import Batch
from invariance.core.fields import STRICT, Positive
from invariance.methods.base import Estimator, Move, PenalisedMethod, Player, squared_norm
from invariance.methods.heads import gradients, hessians_at, outputs, store, vector
from invariance.models.base import Model
from invariance.recipes.presets import Preferences
from invariance.recipes.schedules import Clock
from invariance.recipes.search import OneOf, SearchSpace

TINY = 1e-30


def conjugate_gradients(times: Callable[[Tensor], Tensor], b: Tensor, steps: int) -> Tensor:
    """x with Ax ≈ b after so many steps from 0, where ``times(v)`` is Av and A is positive definite."""
    x, left, way = torch.zeros_like(b), b, b
    for _ in range(steps):
        av = times(way)
        length = left @ left / (way @ av).clamp_min(TINY)
        x, rest = x + length * way, left - length * av
        way = rest + way * (rest @ rest / (left @ left).clamp_min(TINY))
        left = rest
    return x


@final
@dataclass(frozen=True, config=STRICT)
class IRMv0(PenalisedMethod):
    r"""min  mean_e R^e + γ mean_e ‖∇_w R^e‖²,   ∇_w R^e = mean_e(r ⊗ [z, 1])

    Unlike IRMv1's, this penalty depends on how scale is shared between θ and w: φ → cφ, w → w/c leaves every
    output and multiplies the weights' part by c².

    The gradients' common part, mean_e ∇_w R^e, is far larger than what environments disagree by, and grows on the way
    from ERM to an invariant model. w and θ that move together have to follow a narrow curved valley. With
    ``head_steps`` each update takes them in turn (variable projection): features fixed, w moves towards the minimum of
    the same objective Φ = mean_e R^e + γ mean_e ‖∇_w R^e‖², and θ moves at the new w:

        w ← w − (B + λI)⁻¹ ∇_w Φ,   B = mean_e H_e + 2γ mean_e H_e²,   λ = damping · gᵀBg/gᵀg at g = ∇_w Φ

    B is Φ's curvature by Gauss and Newton, H_e the Hessian of R^e by w, and the system is solved by so many steps of
    conjugate gradients.
    """

    title: ClassVar[str] = "IRMv0"
    risk_alone_before: ClassVar[bool] = True
    formula: ClassVar[str] = "min_{w,θ} mean_e [ R^e + γ ‖∇_w R^e‖² ]"
    citation: ClassVar[str] = "Zhang et al., What is missing in IRM training and evaluation?, ICLR 2023"
    differs: ClassVar[tuple[str, ...]] = (
        "With the recipe two-phase head and features move in turn (head_steps), after a warm-up of ERM without a "
        "penalty; the paper says nothing of how they move.",
    )
    preferences: ClassVar[Preferences] = {
        "short": {"lr": 5e-3, "epochs": 18, "warmup": 0.25},
        "two-phase": {"penalty_batch_size": 4096, "schedule": {"kind": "drop", "factor": 0.4}},
    }
    search: ClassVar[SearchSpace] = {
        **PenalisedMethod.search,
        "method.estimator": OneOf(("squared", "split")),
        "method.head_steps": OneOf((0, 1, 5)),
    }
    profiles: ClassVar[Preferences] = {
        **PenalisedMethod.profiles,
        "two-phase": {"gamma_before": 0.0, "head_steps": 5},
    }
    later_fields: ClassVar[tuple[str, ...]] = ("head_steps", "damping", *PenalisedMethod.later_fields)

    estimator: Estimator = "squared"
    """``squared`` squares the estimated gradient; ``split`` multiplies those of two halves: unbiased, noisier."""
    head_steps: NonNegativeInt = 0
    """Steps of conjugate gradients that the head takes before the features move; 0: all move together. Ours."""
    damping: Positive = 0.03
    """λ over the objective's curvature along its gradient: less follows the batch more closely. Ours."""

    def players(self, model: Model) -> tuple[Player, ...]:
        if not self.head_steps:
            return super().players(model)
        features, head = tuple(model.features.parameters()), tuple(model.head.parameters())
        return Player("features", features), Player("head", head)

    def moves(self, model: Model, batch: Batch, clock: Clock, generator: torch.Generator) -> Iterator[Move]:
        """One move of all; or the features' alone, with the head's step inside its loss; then the head is stored."""
        if not (self.head_steps and self.gamma_at(clock)):
            yield from super().moves(model, batch, clock, generator)
            return
        found: list[Tensor] = []

        def loss() -> Tensor:
            z = model.represent(batch.x)
            w = self.head_step(batch, model, z.detach(), clock)
            found.append(w.detach())
            f = outputs(model.head, w, z)
            return self.combine(batch.risks(f), lambda: self.at(w, batch, model, z, f), clock)

        yield Move(loss, self.l2 / self.divisor(clock), ("features",))
        store(model.head, found[0])  # at θ itself: a recipe may have looked around it afterwards

    def head_step(self, batch: Batch, model: Model, z: Tensor, clock: Clock) -> Tensor:
        """w − (B + λI)⁻¹ ∇_w Φ, [P]."""
        risk, gamma = 1 / self.divisor(clock), self.gamma_at(clock) / self.divisor(clock)
        w = vector(model.head).detach().requires_grad_()
        each = gradients(batch, model.head, z, outputs(model.head, w, z), w).detach()
        times = hessians_at(batch, model.head, z, w)

        def curvature(v: Tensor) -> Tensor:
            hv = times(v.expand_as(each))
            return (risk * hv + 2 * gamma * times(hv)).mean(0)

        g = (risk * each + 2 * gamma * times(each)).mean(0)
        damping = self.damping * (g @ curvature(g)) / (g @ g).clamp_min(TINY)
        d = conjugate_gradients(lambda v: curvature(v) + damping * v, -g, self.head_steps)
        return (w + d).detach().requires_grad_()

    def penalty(self, batch: Batch, model: Model, z: Tensor, f: Tensor) -> Tensor:
        return self.at(None, batch, model, z, f)

    def at(self, w: Tensor | None, batch: Batch, model: Model, z: Tensor, f: Tensor) -> Tensor:
        """P of the head with parameters ``w``, or of the model's own."""

        def gradient(batch: Batch, z: Tensor, f: Tensor) -> Tensor:
            return gradients(batch, model.head, z, f, w)

        return self.reduce(squared_norm(self.estimator, batch, gradient, z, f))
