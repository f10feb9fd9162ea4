"""Dropout masks that several runs of a process share.

Which entries of the inputs an update does not see follows from the seed and the update alone, and drawing them takes
torch longer than any product of a small network. So the runs of a worker draw them once, and keep them as bits.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

MAX_BYTES = 128 * 1024**2
"""Of all masks together; those that were not used for longest go first."""


MANTISSA = 53
"""Bits of a drawn number that decide whether an entry is kept."""
CHUNK = 1 << 15
"""So many drawn numbers stay in the cache."""


def kept_entries(shape: Sequence[int], share: float, dtype: torch.dtype) -> Tensor:
    """Which entries torch's dropout would keep now; the random state is afterwards as dropout leaves it.

    Torch compares a uniform number of 53 bits with 1 − share, entry by entry. Drawing their bits at once takes half as
    long. Where torch draws in another way, on some processors, its own way is taken.
    """
    return (
        _bits_kept(shape, share) if _draws_bits(dtype) else torch.empty(*shape, dtype=dtype).bernoulli_(1 - share) > 0
    )


def _bits_kept(shape: Sequence[int], share: float) -> Tensor:
    kept = torch.empty(math.prod(shape), dtype=torch.bool)
    limit = math.ceil((1 - share) * 2**MANTISSA)
    bits = torch.empty(min(CHUNK, len(kept)), dtype=torch.int64)
    for part in kept.split(CHUNK):
        torch.lt(bits[: len(part)].random_().bitwise_and_(2**MANTISSA - 1), limit, out=part)
    return kept.view(*shape)


@cache
def _draws_bits(dtype: torch.dtype) -> bool:
    """Whether both ways give the same entries and leave the same random state."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        expected, after = torch.empty(4099, dtype=dtype).bernoulli_(0.8), torch.get_rng_state()
        torch.default_generator.manual_seed(0)
        return torch.equal(_bits_kept((4099,), 0.2), expected > 0) and torch.equal(torch.get_rng_state(), after)


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

    def entries(self, update: tuple[int, int], shape: Sequence[int], share: float, dtype: torch.dtype) -> Tensor:
        """Which entries dropout keeps; ``update`` is what torch's random state was just seeded with."""
        key = (update, tuple(shape), share, dtype)
        mask = self.kept.pop(key, None)
        if mask is None:
            entries = kept_entries(shape, share, dtype)
            self._keep(key, Mask(np.packbits(entries.flatten().numpy()), torch.get_rng_state()))
            return entries
        self.kept[key] = mask
        torch.set_rng_state(mask.after)
        return torch.from_numpy(np.unpackbits(mask.bits, count=math.prod(shape))).view(torch.bool).view(*shape)

    def _keep(self, key: object, mask: Mask) -> None:
        self.kept[key] = mask
        self.bytes += mask.bytes
        while self.bytes > self.max_bytes:
            oldest = next(iter(self.kept))
            self.bytes -= self.kept.pop(oldest).bytes
