"""Linear models, with features that choose inputs."""

import math
from typing import final

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from invariance.core.fields import STRICT
from invariance.models.base import Architecture, Model, linear


class Gate(nn.Module):
    """z = a ⊙ x: one learned factor per input."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        """Scaled inputs, [n, size]."""
        return self.factor * x.flatten(1)


@final
@dataclass(frozen=True, config=STRICT)
class Linear(Architecture):
    """f = w·(a ⊙ x) + b: the smallest w∘θ that can drop an input."""

    def model(self, input_shape: tuple[int, ...], outputs: int, generator: torch.Generator) -> Model:
        size = math.prod(input_shape)
        return Model(Gate(size), linear(size, outputs, generator))
