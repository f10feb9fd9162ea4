"""The two-layer ReLU network of the Colored-MNIST literature."""

import math
from typing import Annotated, final

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import nn

from invariance.core.fields import STRICT
from invariance.models.base import Architecture, Model, linear
from invariance.models.relu_layers import ReLULayers

MAX_WEIGHTS = 1 << 28
"""Between hidden layers: one gigabyte."""


@final
@dataclass(frozen=True, config=STRICT)
class MLP(Architecture):
    """``depth`` hidden layers of ``width`` ReLU units as features, a linear head on top."""

    width: Annotated[int, Field(ge=1, le=16_384)] = 390
    depth: Annotated[int, Field(ge=1, le=64)] = 2

    def __post_init__(self) -> None:
        if (self.depth - 1) * self.width**2 > MAX_WEIGHTS:
            raise ValueError(f"{self.depth} layers of {self.width} units have more than {MAX_WEIGHTS:,} weights")

    def model(self, input_shape: tuple[int, ...], outputs: int, generator: torch.Generator) -> Model:
        layers: list[nn.Module] = [nn.Flatten()]
        size = math.prod(input_shape)
        for _ in range(self.depth):
            layers += [linear(size, self.width, generator), nn.ReLU(inplace=True)]
            size = self.width
        return Model(ReLULayers(*layers), linear(size, outputs, generator))
