"""Dropout masks that several runs of a process share.

Which entries of the inputs an update does not see follows from the seed and the update alone, and drawing them takes
torch longer than any product of a small network. So the runs of a worker draw them once, and keep them as bits.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

MAX_BYTES = 128 * 1024**2
"""Of all masks together; those that were not used for longest go first."""


class Mask(NamedTuple):
    """Which entries are kept, as bits, and torch's random state after they were drawn."""

    bits: np.ndarray[tuple[int], np.dtype[np.uint8]]
    after: Tensor

    @property
    def bytes(self) -> int:
        """Its size."""
        return self.bits.nbytes + self.after.nbytes


class Masks:
    """Masks by what decides them."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes, self.bytes = max_bytes, 0
        self.kept: dict[object, Mask] = {}

    def noise(self, update: tuple[int, int], shape: Sequence[int], share: float, dtype: torch.dtype) -> Tensor:
        """What dropout multiplies inputs by; ``update`` is what torch's random state was just seeded with."""
        key = (update, tuple(shape), share, dtype)
        mask = self.kept.pop(key, None)
        if mask is None:
            noise = functional.dropout(torch.ones(*shape, dtype=dtype), share)
            self._keep(key, Mask(np.packbits(noise.flatten().numpy() != 0), torch.get_rng_state()))
            return noise
        self.kept[key] = mask
        torch.set_rng_state(mask.after)
        ones = torch.from_numpy(np.unpackbits(mask.bits, count=int(np.prod(shape))))
        return ones.view(*shape).to(dtype).mul_(torch.ones((), dtype=dtype).div_(1 - share))

    def _keep(self, key: object, mask: Mask) -> None:
        self.kept[key] = mask
        self.bytes += mask.bytes
        while self.bytes > self.max_bytes:
            oldest = next(iter(self.kept))
            self.bytes -= self.kept.pop(oldest).bytes
