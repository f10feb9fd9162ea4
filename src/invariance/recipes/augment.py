"""Images that look a little different in every update."""

from typing import ClassVar, Literal, final

import torch
from pydantic import NonNegativeInt
from pydantic.dataclasses import dataclass
from torch import Tensor
from torch.nn import functional

from invariance.core.errors import BadValue
from invariance.core.fields import STRICT, Share
from invariance.core.shard import Shard


@final
@dataclass(frozen=True, config=STRICT)
class Augment:
    """Each image is mirrored with probability ``flip``, and shifted by up to ``shift`` pixels either way."""

    later_fields: ClassVar[tuple[str, ...]] = ("edge",)

    flip: Share = 0.5
    shift: NonNegativeInt = 4
    edge: Literal["black", "repeat"] = "black"
    """What comes in where an image is shifted: black, or its outermost pixels again."""

    def __call__(self, x: Tensor, generator: torch.Generator, shard: Shard | None = None) -> Tensor:
        """Other images of the same type and shape, [n, c, h, w]; if they are a ``shard``, as in the whole batch."""
        if x.ndim != 4:
            raise BadValue(f"only images can be mirrored and shifted; got inputs of shape {tuple(x.shape[1:])}")
        n, _, height, width = x.shape
        every = sum(shard.counts) if shard else n
        mirrored = torch.rand(every, generator=generator) < self.flip
        down, right = torch.randint(2 * self.shift + 1, (2, every, 1), generator=generator)
        if shard:
            mirrored, down, right = mirrored[shard.rows], down[shard.rows], right[shard.rows]
        x = torch.where(mirrored.to(x.device).view(-1, 1, 1, 1), x.flip(3), x)
        rows = (down + torch.arange(height)).to(x.device)  # [n, h]
        columns = (right + torch.arange(width)).to(x.device)  # [n, w]
        if self.edge == "repeat":
            rows, columns = ((i - self.shift).clamp(0, most - 1) for i, most in ((rows, height), (columns, width)))
        else:
            x = functional.pad(x, (self.shift,) * 4)
        each = torch.arange(n, device=x.device).view(-1, 1, 1)
        moved = x.permute(0, 2, 3, 1)[each, rows.unsqueeze(2), columns.unsqueeze(1)]  # [n, h, w, c]
        return moved.permute(0, 3, 1, 2).contiguous()
