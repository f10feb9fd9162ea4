"""Env-PoE: ERM beside an expert that knows what differs between environments, a product of experts."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, final

import torch
from pydantic.dataclasses import dataclass

from invariance.core.batch import Batch
from invariance.core.fields import STRICT, NonNegative
from invariance.methods.base import Method, Move, risk_alone
from invariance.methods.erm import ERM
from invariance.models.base import Model
from invariance.recipes.presets import Preferences
from invariance.recipes.recipe import Recipe
from invariance.recipes.schedules import Clock
from invariance.recipes.search import IntRange, LogRange, Range, SearchSpace

OWN: dict[str, Any] = {"epochs": 10, "l2_scale": 0.1, "warmup": 0.0, "dropout": 0.2, "debias": 4}
"""Without a penalty there is one phase."""


@final
@dataclass(frozen=True, config=STRICT)
class EnvPoE(Method):
    r"""min  mean_e E_e[ loss(f + o_e(s), y) ],   o_e(s) = log P(s | y, e) + β[y, e],   s from a classifier P(e | x, y)

    First an environment classifier is trained. How its posterior depends on label and environment together gives a cue
    state s for every input. The logits of a biased expert that knows s alone are added to those of the model while it
    is trained (a product of experts), so the model learns the rest. Predictions use f alone. There is no penalty. Where
    the label adds nothing about the environment of held-out samples, there is no offset, the run says so, and this is
    ERM (`training/biased_expert.py`). For regression s is Gaussian, and the expert has a mean and a precision:
    loss(f, y) is that of the product of two Gaussians (`training/gaussian_expert.py`).
    """

    title: ClassVar[str] = "Env-PoE"
    formula: ClassVar[str] = (
        "min_{w,θ} mean_e E_e[loss(w∘θ + o_e, y)],  o_e = log P(s | y, e) + β[y, e],  s from P(e | x, y)"
    )
    citation: ClassVar[str] = (
        "this package; product of experts: Hinton, Training products of experts by minimizing contrastive divergence, "
        "Neural Computation 2002; for debiasing: Clark et al., Don't take the easy way out, EMNLP 2019"
    )
    differs: ClassVar[tuple[str, ...]] = (
        "In Clark et al. the biased expert models a cue that is known; here an environment classifier finds the cue.",
        "In regression one regression head per environment finds the cue, and the experts are Gaussian: natural "
        "parameters (precision × mean, precision) add in place of logits.",
        "Where the inputs of a table tell the environment, linear heads P(y | x, e) find the cue.",
    )
    preferences: ClassVar[Preferences] = {
        "short": OWN,
        "two-phase": {**OWN, "penalty_batch_size": None, "reset": False, "schedule": "decay"},
    }
    search: ClassVar[SearchSpace] = {
        **Method.search,
        "recipe.debias": IntRange(1, 5),
        "recipe.dropout": Range(0.0, 0.5),
        "recipe.l2_scale": LogRange(1e-2, 1e1),
    }

    l2: NonNegative = 1.10794568e-3
    """The weight of ‖parameters‖². As in the published Colored-MNIST command of Arjovsky et al."""

    def adapted(self, recipe: Recipe) -> Recipe:
        """With an environment classifier: for a third of the epochs, where the recipe does not say."""
        return recipe if recipe.debias else replace(recipe, debias=math.ceil(recipe.epochs / 3))

    def decided_by(self, clock: Clock, *, sliced: bool) -> str:
        return risk_alone(self.l2)

    def moves(self, model: Model, batch: Batch, clock: Clock, generator: torch.Generator) -> Iterator[Move]:
        """ERM's move; the offset is part of the batch."""
        return ERM(l2=self.l2).moves(model, batch, clock, generator)
