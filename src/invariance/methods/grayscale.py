"""The oracle: ERM that cannot see what changes."""

from collections.abc import Iterator
from typing import ClassVar, final

import torch
from pydantic.dataclasses import dataclass

from invariance.core.batch import Batch
from invariance.core.fields import STRICT, NonNegative
from invariance.methods.base import Method, Move, risk_alone
from invariance.methods.erm import ERM
from invariance.models.base import Model
from invariance.recipes.recipe import Recipe
from invariance.recipes.schedules import Clock


@final
@dataclass(frozen=True, config=STRICT)
class GrayScale(Method):
    """ERM on inputs whose spurious part (the colour) was taken out: the ceiling of what invariance gives."""

    title: ClassVar[str] = "GrayScale"
    formula: ClassVar[str] = "min_{w,θ} mean_e R^e(w∘θ) on inputs without their spurious part"
    citation: ClassVar[str] = "Arjovsky et al., Invariant risk minimization, arXiv:1907.02893, 2019"
    needs_environments: ClassVar[int] = 1
    oracle: ClassVar[bool] = True

    l2: NonNegative = 1.10794568e-3
    """The weight of ‖parameters‖². As in the published Colored-MNIST command of Arjovsky et al."""

    def adapted(self, recipe: Recipe) -> Recipe:
        """As ERM's: without debiasing."""
        return ERM().adapted(recipe)

    def decided_by(self, clock: Clock, *, sliced: bool) -> str:
        return risk_alone(self.l2)

    def moves(self, model: Model, batch: Batch, clock: Clock, generator: torch.Generator) -> Iterator[Move]:
        """ERM's move; the runner hands in a benchmark without the spurious part."""
        return ERM(l2=self.l2).moves(model, batch, clock, generator)
