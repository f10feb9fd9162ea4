"""BIRM: IRMv1's gradient vanishes at scales drawn around one."""

from typing import ClassVar, final

import torch
from pydantic import PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor

from invariance.core.batch import Batch
from invariance.core.fields import STRICT, NonNegative
from invariance.methods.base import Divisor, Estimator, PenalisedMethod, squared_norm
from invariance.models.base import Model
from invariance.recipes.presets import Preferences
from invariance.recipes.schedules import Clock
from invariance.recipes.search import LogRange, OneOf, SearchSpace


@final
@dataclass(frozen=True, config=STRICT)
class BIRM(PenalisedMethod):
    r"""min  mean_e R^e + γ mean_j mean_e s_e(c_{je})²,   s_e(c) = mean_e((mean(c·f) − y)·f),   c_{je} ~ N(1, τ²)

    A posterior over the scale of each environment in place of IRMv1's point 1. ``draws`` scales are drawn
    afresh each step for every environment; both halves of the split estimator share them.
    """

    title: ClassVar[str] = "BIRM"
    risk_alone_before: ClassVar[bool] = True
    formula: ClassVar[str] = "min_{w,θ} mean_e [ R^e + γ E_{c~N(1,τ²)} (∂R^e(c·f)/∂c)² ]"
    reads_features: ClassVar[bool] = False
    citation: ClassVar[str] = "Lin et al., Bayesian invariant risk minimization, CVPR 2022"
    differs: ClassVar[tuple[str, ...]] = (
        "The split estimator is used in full batches too (estimator='squared' is the authors' there).",
        "The risk is taken at scale 1, not at the last drawn scale.",
        "Gradients are averages within each environment, also where sizes differ.",
        "γ is 10⁶ as in the ICLR 2023 paper; the authors' code has 10⁴.",
    )
    preferences: ClassVar[Preferences] = {
        "full-batch": {"lr": 4e-4, "schedule": {"kind": "steps", "at": [0.5], "factor": 0.1}},
        "small-batch": {"schedule": {"kind": "steps", "at": [0.5], "factor": 0.1}},
    }
    search: ClassVar[SearchSpace] = {
        **PenalisedMethod.search,
        "method.estimator": OneOf(("squared", "split")),
        "method.tau": LogRange(1e-3, 0.3),
    }

    gamma_before: NonNegative = 0.0
    """The weight of the penalty during the warm-up."""
    divide_by: Divisor = "1+gamma"
    """What the whole sum is divided by, so that gradients keep their size."""
    l2: NonNegative = 1e-3
    """The weight of ‖parameters‖². As in the authors' Colored-MNIST command."""
    estimator: Estimator = "split"
    """``squared`` squares the estimated gradient; ``split`` multiplies those of two halves: unbiased, noisier."""
    draws: PositiveInt = 10
    """How many scales are drawn per environment in each step."""
    tau: NonNegative = 0.024
    """The deviation of drawn scales. 1200 over the number of training samples, by the authors' rule: 50,000 here. With
    the recipe paper it is that of their commands on CIFAR-MNIST (0.15) and Colored-Object (0.083)."""

    def prepare(self, model: Model, environments: int, generator: torch.Generator) -> Model:
        model.memory.register_buffer("scales", torch.ones(self.draws, environments), persistent=False)
        return model

    def before(self, model: Model, clock: Clock, generator: torch.Generator) -> None:
        self._draw(model, generator)

    def measure(self, model: Model, batch: Batch, z: Tensor, f: Tensor) -> Tensor:
        """P at the same scales every time it is measured."""
        self._draw(model, torch.Generator().manual_seed(0))
        return self.penalty(batch, model, z, f)

    def _draw(self, model: Model, generator: torch.Generator) -> None:
        scales = model.memory.get_buffer("scales")
        scales.copy_(torch.empty_like(scales, device="cpu").normal_(1.0, self.tau, generator=generator))

    def penalty(self, batch: Batch, model: Model, z: Tensor, f: Tensor) -> Tensor:
        scales = model.memory.get_buffer("scales")  # [J, E]

        def gradient(batch: Batch, z: Tensor, f: Tensor) -> Tensor:
            shared = scales.repeat_interleave(batch.environments // scales.shape[1], dim=1)  # by both halves
            c = shared[:, batch.environment].unsqueeze(-1)  # [J, n, 1]
            return batch.mean((batch.residual(c * f) * f).sum(-1).mT)  # [E, J]

        return self.reduce(squared_norm(self.estimator, batch, gradient, z, f)) / self.draws
