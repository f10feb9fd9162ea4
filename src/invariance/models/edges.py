"""A small grey image and its edges: features that need no training."""

from typing import Annotated, final

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn
from torch.nn import functional

from invariance.core.errors import BadValue
from invariance.core.fields import STRICT
from invariance.models.base import Architecture, Model, linear

FLAT = 0.02
"""Gradients of a cell below this length, in units of white, are no edges."""


class EdgeHistograms(nn.Module):
    """Grey values of ``cells``² parts of the image, and how strong edges of each direction are in them."""

    def __init__(self, cells: int, directions: int) -> None:
        super().__init__()
        self.cells, self.directions = cells, directions

    def forward(self, x: Tensor) -> Tensor:
        """z, [n, cells²·(1 + directions)]."""
        grey = x.mean(1, keepdim=True)
        beyond = functional.pad(grey, (1, 1, 1, 1), mode="replicate")
        across = beyond[:, :, 1:-1, 2:] - beyond[:, :, 1:-1, :-2]
        down = beyond[:, :, 2:, 1:-1] - beyond[:, :, :-2, 1:-1]
        angle = torch.atan2(down, across).remainder(torch.pi) * (self.directions / torch.pi)
        bins = torch.arange(self.directions, device=x.device, dtype=x.dtype).view(1, -1, 1, 1)
        apart = (angle - bins).abs()
        share = (1 - torch.minimum(apart, self.directions - apart)).clamp(min=0)  # [n, directions, h, w]
        edges = functional.adaptive_avg_pool2d(share * (across.square() + down.square()).sqrt(), self.cells)
        edges = edges / (edges.square().sum(1, keepdim=True).sqrt() + FLAT)
        return torch.cat([functional.adaptive_avg_pool2d(grey, self.cells).flatten(1), edges.flatten(1)], dim=1)


@final
@dataclass(frozen=True, config=STRICT)
class Edges(Architecture):
    """A linear model of a small grey image and its edges: histograms of directions (Dalal and Triggs 2005).

    The image is cut into ``cells`` × ``cells`` parts, and edges are told apart by ``directions``. For a few hundred
    images, which cannot teach a network.
    """

    cells: Annotated[int, Field(ge=1, le=64)] = 8
    directions: Annotated[int, Field(ge=2, le=64)] = 8

    def model(self, input_shape: tuple[int, ...], outputs: int, generator: torch.Generator) -> Model:
        if len(input_shape) != 3:
            raise BadValue(f"edges are those of images [channels, height, width]; got inputs of shape {input_shape}")
        model = Model(EdgeHistograms(self.cells, self.directions), linear(self.width, outputs, generator))
        model.slice = 256
        return model

    @property
    def width(self) -> int:
        """The number of features."""
        return self.cells**2 * (1 + self.directions)
