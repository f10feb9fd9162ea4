"""Empirical risk minimisation."""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, final

import torch
from pydantic.dataclasses import dataclass

from invariance.core.batch import Batch
from invariance.core.fields import STRICT, NonNegative
from invariance.methods.base import Method, Move, risk_alone
from invariance.models.base import Model
from invariance.recipes.recipe import Recipe
from invariance.recipes.schedules import Clock


@final
@dataclass(frozen=True, config=STRICT)
class ERM(Method):
    """min  mean_e R^e(w∘θ): the baseline, which uses whatever predicts the label, spurious or not."""

    title: ClassVar[str] = "ERM"
    formula: ClassVar[str] = "min_{w,θ} mean_e R^e(w∘θ)"
    citation: ClassVar[str] = "Vapnik, Principles of risk minimization for learning theory, NeurIPS 1991"
    needs_environments: ClassVar[int] = 1

    l2: NonNegative = 1.10794568e-3
    """The weight of ‖parameters‖². As in the published Colored-MNIST command of Arjovsky et al."""

    def adapted(self, recipe: Recipe) -> Recipe:
        """Without debiasing: ERM with it is another method, Env-PoE."""
        return replace(recipe, debias=0)

    def decided_by(self, clock: Clock, *, sliced: bool) -> str:
        return risk_alone(self.l2)

    def moves(self, model: Model, batch: Batch, clock: Clock, generator: torch.Generator) -> Iterator[Move]:
        """One move."""
        yield Move(lambda: batch.risks(model(batch.x)).mean(), self.l2)
