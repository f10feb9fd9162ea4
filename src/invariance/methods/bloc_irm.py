"""BLOC-IRM: a consensus of heads below, a representation that makes it stationary everywhere above."""

from collections.abc import Iterator
from typing import ClassVar, Literal, NamedTuple, final

import torch
from pydantic import PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor

from invariance.core.batch import Batch
from invariance.core.fields import STRICT, Positive
from invariance.methods.base import AnnealedMethod, Estimator, Move, Player, squared_norm
from invariance.methods.fishr import variance_spread
from invariance.methods.heads import gradient_variances, gradients, outputs, outputs_each, store, vector
from invariance.methods.irmv1 import scale_gradient
from invariance.models.base import Model
from invariance.recipes.presets import Preferences
from invariance.recipes.schedules import Clock
from invariance.recipes.search import LogRange, OneOf, SearchSpace

BETAS = (0.9, 0.999)
EPS = 1e-8


class Moments(NamedTuple):
    """Adam's moments, for one head per environment."""

    steps: Tensor
    first: Tensor  # [E, P]
    second: Tensor  # [E, P]


def adam(moments: Moments, g: Tensor) -> tuple[Moments, Tensor]:
    """New moments and direction, differentiable in the gradient g [E, P] (ε stands inside the root)."""
    steps = moments.steps + 1
    first = BETAS[0] * moments.first + (1 - BETAS[0]) * g
    second = BETAS[1] * moments.second + (1 - BETAS[1]) * g.square()
    scale = (second / (1 - BETAS[1] ** steps) + EPS**2).sqrt()
    return Moments(steps, first, second), first / (1 - BETAS[0] ** steps) / scale


@final
@dataclass(frozen=True, config=STRICT)
class BLOCIRM(AnnealedMethod):
    r"""min_θ  mean_e [ R^e(w*∘θ) + γ ‖∇_w R^e(w*∘θ)‖² ],   w*(θ) = mean_e [ w − η ∇_w R^e(w∘θ) ]

    In each step, from the shared head w:
    1. every environment takes ``inner_steps`` steps of its own, w̃_e = w − η ∇_w R^e(w∘θ);
    2. consensus: w* = mean_e w̃_e;
    3. θ descends on the upper objective, differentiated also through w*(θ) if ``unroll``;
    4. w ← w*.

    With one plain gradient step below, w* is one step of gradient descent on the mean risk. ``penalty`` chooses
    the regulariser of the upper level: the stationarity above, or that of IRMv1, REx or Fishr at w*, or none. While
    γ_t = 0 there is one level, and w and θ descend on the mean risk together, as in ERM.

    Where the lower level is solved, mean_e ∇_w R^e(w*∘θ) = 0, and the stationarity is what the environments disagree
    by. One small step does not solve it: the gradients' common part is then far larger than the disagreement and holds
    θ where training without a penalty left it. A few longer steps (``inner_steps``, ``inner_lr``), with θ's gradient
    taken through all of them, leave little of it. ``limit_inner_lr`` shortens them to 1/L where features are so large
    that they might diverge: L = c·max_e mean_e ‖[z, 1]‖² bounds the curvature of every R^e by a linear head, where c is
    the largest that the loss has by an output. Short steps have to be more.

    The square of an estimated gradient is too large by tr Σ_e/n_e, its variance with n_e samples of the batch. Where
    these are not many more than the head has weights, that is what θ makes small, and not the disagreement; the
    estimator ``split`` is without it.
    """

    title: ClassVar[str] = "BLOC-IRM"
    risk_alone_before: ClassVar[bool] = True
    formula: ClassVar[str] = "min_θ mean_e [ R^e(w*∘θ) + γ ‖∇_w R^e(w*∘θ)‖² ],  w* = mean_e [ w − η ∇_w R^e(w∘θ) ]"
    citation: ClassVar[str] = "Zhang et al., What is missing in IRM training and evaluation?, ICLR 2023"
    differs: ClassVar[tuple[str, ...]] = (
        "Environments are averaged, not added (reduction='sum' adds them).",
        "Heads step by gradient descent, as in Algorithm A1; its appendix also speaks of one optimiser per head "
        "(inner_optimiser='adam').",
        "With the recipe two-phase heads take five steps at a rate of 1, less where features are large "
        "(limit_inner_lr); Algorithm A1 has one step, and the paper names the extractor's rate. They come after a "
        "warm-up of ERM without a penalty.",
    )
    preferences: ClassVar[Preferences] = {
        "full-batch": {"lr": 2e-3},
        "small-batch": {"lr": 2e-3},
        "short": {"lr": 3e-3, "epochs": 16, "warmup": 0.3},
        "two-phase": {
            "epochs": 12,
            "warmup": 0.5,
            "penalty_batch_size": 4096,
            "schedule": {"kind": "drop", "factor": 0.4},
        },
    }
    search: ClassVar[SearchSpace] = {
        **AnnealedMethod.search,
        "method.estimator": OneOf(("squared", "split")),
        "method.inner_lr": LogRange(1e-3, 3.0),
        "method.inner_steps": OneOf((1, 3, 5, 10, 20)),
    }
    profiles: ClassVar[Preferences] = {
        **AnnealedMethod.profiles,
        "two-phase": {"gamma_before": 0.0, "inner_steps": 5, "inner_lr": 1.0, "limit_inner_lr": True},
    }

    later_fields: ClassVar[tuple[str, ...]] = ("limit_inner_lr", *AnnealedMethod.later_fields)

    penalty: Literal["stationarity", "irmv1", "rex", "fishr", "none"] = "stationarity"
    """The regulariser of the upper level: the paper's stationarity, another method's penalty at w*, or none."""
    estimator: Estimator = "squared"
    """``squared``, or ``split``, which multiplies the gradients of two halves: unbiased, noisier."""
    inner_steps: PositiveInt = 1
    """Steps that each environment's head takes. One, as in Algorithm A1."""
    inner_lr: Positive = 2e-3
    """Their learning rate η. The rate that the paper names for the extractor; on ResNets that is 0.1."""
    limit_inner_lr: bool = False
    """Whether η is limited where features are so large that the steps might diverge. Ours."""
    inner_optimiser: Literal["gd", "adam"] = "gd"
    """How heads step: by gradient descent, as in Algorithm A1, or by Adam."""
    unroll: bool = True
    """Whether the features' gradient goes through the heads' steps."""

    def prepare(self, model: Model, environments: int, generator: torch.Generator) -> Model:
        if self.inner_optimiser == "adam":
            zeros = vector(model.head).detach().new_zeros(environments, vector(model.head).numel())
            model.memory.register_buffer("first", zeros.clone())
            model.memory.register_buffer("second", zeros.clone())
            model.memory.register_buffer("steps", torch.zeros(()))
        return model

    def players(self, model: Model) -> tuple[Player, ...]:
        features, head = tuple(model.features.parameters()), tuple(model.head.parameters())
        return Player("features", features), Player("head", head)

    def moves(self, model: Model, batch: Batch, clock: Clock, generator: torch.Generator) -> Iterator[Move]:
        """θ's move, with the lower level inside its loss; then the head is stored."""
        if not self.gamma_at(clock):
            yield Move(lambda: self.reduce(batch.risks(model(batch.x))), self.l2)
            return
        found: list[tuple[Tensor, Moments | None]] = []

        def loss() -> Tensor:
            z = model.represent(batch.x)
            w, moments = self.lower(batch, model, z if self.unroll else z.detach())
            found.append((w.detach(), moments and Moments(*(m.detach() for m in moments))))
            f = outputs(model.head, w, z)
            return self.combine(batch.risks(f), lambda: self.upper(batch, model, z, f, w), clock)

        yield Move(loss, self.l2 / self.divisor(clock), ("features",))
        self.remember(model, *found[0])  # at θ itself: a recipe may have looked around it afterwards

    def lower(self, batch: Batch, model: Model, z: Tensor) -> tuple[Tensor, Moments | None]:
        """Steps 1 and 2: w*(θ), [P], and the heads' Adam moments where they have any."""
        w = vector(model.head).detach().requires_grad_()
        moments = self._moments(model)
        f = outputs(model.head, w, z)
        g = gradients(batch, model.head, z, f, w)
        each = w.expand(batch.environments, -1)
        rate = min(self.inner_lr, _longest_step(batch, z)) if self.limit_inner_lr else self.inner_lr
        for k in range(self.inner_steps):
            if k:
                f = outputs_each(model.head, each, z, batch)
                g = gradients(batch, model.head, z, f, each)
            if moments:
                moments, g = adam(moments, g)
            each = each - rate * g
        return each.mean(0), moments

    def _moments(self, model: Model) -> Moments | None:
        if self.inner_optimiser == "gd":
            return None
        return Moments(*(model.memory.get_buffer(name).clone() for name in Moments._fields))

    def upper(self, batch: Batch, model: Model, z: Tensor, f: Tensor, w: Tensor) -> Tensor:
        """The regulariser at w*."""

        def gradient(batch: Batch, z: Tensor, f: Tensor) -> Tensor:
            return gradients(batch, model.head, z, f, w)

        match self.penalty:
            case "stationarity":
                each = squared_norm(self.estimator, batch, gradient, z, f)
            case "irmv1":
                each = squared_norm(self.estimator, batch, scale_gradient, z, f)
            case "fishr":
                each = variance_spread(gradient_variances(batch, model.head, z, f, w))
            case "rex":
                return batch.risks(f).var(correction=0)
            case "none":
                return f.new_zeros(())
        return self.reduce(each)

    def measure(self, model: Model, batch: Batch, z: Tensor, f: Tensor) -> Tensor:
        """The regulariser at the stored consensus."""
        w = vector(model.head).detach().requires_grad_()
        return self.upper(batch, model, z, outputs(model.head, w, z), w)

    def remember(self, model: Model, w: Tensor, moments: Moments | None) -> None:
        """Step 4: w ← w*."""
        store(model.head, w)
        for name, value in (moments._asdict() if moments else {}).items():
            model.memory.get_buffer(name).copy_(value)


def _longest_step(batch: Batch, z: Tensor) -> float:
    """1/L: gradient descent on no environment's risk diverges at this rate, whatever the features' scale."""
    size = batch.mean(z.detach().square().sum(1)).max() + 1
    return 1 / (batch.family.curvature * float(size))
