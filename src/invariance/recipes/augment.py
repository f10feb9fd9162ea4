"""Images that look a little different in every update."""

from typing import final

import torch
from pydantic import NonNegativeInt
from pydantic.dataclasses import dataclass
from torch import Tensor
from torch.nn import functional

from invariance.core.errors import BadValue
from invariance.core.fields import STRICT, Share


@final
@dataclass(frozen=True, config=STRICT)
class Augment:
    """Each image is mirrored with probability ``flip``, and shifted by up to ``shift`` pixels either way.

    What comes in at the edge is black.
    """

    flip: Share = 0.5
    shift: NonNegativeInt = 4

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Other images of the same type and shape, [n, c, h, w]."""
        if x.ndim != 4:
            raise BadValue(f"only images can be mirrored and shifted; got inputs of shape {tuple(x.shape[1:])}")
        n, _, height, width = x.shape
        mirrored = torch.rand(n, generator=generator) < self.flip
        x = torch.where(mirrored.view(-1, 1, 1, 1), x.flip(3), x)
        down, right = torch.randint(2 * self.shift + 1, (2, n, 1), generator=generator)
        rows, columns = down + torch.arange(height), right + torch.arange(width)  # [n, h], [n, w]
        padded = functional.pad(x, (self.shift,) * 4).permute(0, 2, 3, 1)
        moved = padded[torch.arange(n).view(-1, 1, 1), rows.unsqueeze(2), columns.unsqueeze(1)]  # [n, h, w, c]
        return moved.permute(0, 3, 1, 2).contiguous()
