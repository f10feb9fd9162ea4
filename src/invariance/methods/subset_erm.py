"""Subset ERM: ERM on the inputs whose effects do not vary between environments."""

from collections.abc import Iterator
from typing import ClassVar, final

import torch
from pydantic import NonNegativeInt
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from invariance.core.batch import Batch
from invariance.core.fields import STRICT, NonNegative
from invariance.methods.base import Method, Move, risk_alone
from invariance.methods.erm import ERM
from invariance.models.base import Model
from invariance.models.scratch import FixedLayer
from invariance.recipes.recipe import Recipe
from invariance.recipes.schedules import Clock

NOTHING_LEFT_OUT = (
    "no column is left out, so this is ERM; name columns in method.without, or take auto, which finds those that vary"
)


class Without(FixedLayer):
    """x with some columns (or channels) set to zero."""

    def __init__(self, inputs: tuple[int, ...]) -> None:
        super().__init__()
        self.inputs = inputs

    def forward(self, x: Tensor) -> Tensor:
        """Shaped as it was."""
        return x.index_fill(1, torch.tensor(self.inputs, device=x.device), 0.0)


@final
@dataclass(frozen=True, config=STRICT)
class SubsetERM(Method):
    """min  mean_e R^e(w∘θ(x_S)),  with S all inputs but those in ``without``.

    ``without`` are numbers of columns, or of channels of images; without any, this is ERM. Estimators with
    ``method="auto"`` find those whose effects vary between environments (`estimators/adverse.py`).
    """

    title: ClassVar[str] = "Subset ERM"
    formula: ClassVar[str] = "min_{w,θ} mean_e R^e(w∘θ(x_S))"
    citation: ClassVar[str] = "Rojas-Carulla et al., Invariant models for causal transfer learning, JMLR 2018"
    differs: ClassVar[tuple[str, ...]] = (
        "The authors test subsets of the inputs for residuals that are distributed alike in all environments; here the "
        "effect of each input is compared between environments, and those that vary are left out.",
    )

    l2: NonNegative = 1.10794568e-3
    """The weight of ‖parameters‖², as ERM's."""
    without: tuple[NonNegativeInt, ...] = ()
    """Numbers of the columns, or of the channels of images, that are left out."""

    @property
    def note(self) -> str:
        return "" if self.without else NOTHING_LEFT_OUT

    def adapted(self, recipe: Recipe) -> Recipe:
        """As ERM's: without debiasing."""
        return ERM().adapted(recipe)

    def seen(self, x: Tensor) -> Tensor:
        """Zeros in place of the inputs that are left out."""
        return Without(self.without)(x) if self.without else x

    def prepare(self, model: Model, environments: int, generator: torch.Generator) -> Model:
        """The features see the subset."""
        if self.without:
            model.features = nn.Sequential(Without(self.without), model.features)
        return model

    def decided_by(self, clock: Clock, *, sliced: bool) -> str:
        """As ERM's, on the inputs that are left."""
        return f"{risk_alone(self.l2)}, without {self.without}" if self.without else risk_alone(self.l2)

    def moves(self, model: Model, batch: Batch, clock: Clock, generator: torch.Generator) -> Iterator[Move]:
        """ERM's move."""
        return ERM(l2=self.l2).moves(model, batch, clock, generator)
