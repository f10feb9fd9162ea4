"""Which rows of a batch one of several ranks has."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Shard:
    """A rank's part of a batch: rows ``starts[e]`` to ``ends[e]`` of the ``counts[e]`` rows of environment e."""

    counts: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    @classmethod
    def of(cls, counts: Sequence[int], rank: int, ranks: int) -> "Shard":
        """Equal parts, up to one row; who has one more changes from environment to environment."""
        places = [(rank + e) % ranks for e in range(len(counts))]
        starts = tuple(n * place // ranks for n, place in zip(counts, places, strict=True))
        ends = tuple(n * (place + 1) // ranks for n, place in zip(counts, places, strict=True))
        return cls(tuple(counts), starts, ends)

    @property
    def own(self) -> tuple[int, ...]:
        """How many rows of each environment are here."""
        return tuple(end - start for start, end in zip(self.starts, self.ends, strict=True))

    @cached_property
    def rows(self) -> Tensor:
        """Where the rows here stand in the whole batch."""
        firsts = [0, *torch.tensor(self.counts).cumsum(0).tolist()]
        spans = zip(firsts, self.starts, self.ends, strict=False)
        return torch.cat([torch.arange(first + start, first + end) for first, start, end in spans])

    def only(self, e: int) -> "Shard":
        """The part of environment ``e``."""
        return Shard(self.counts[e : e + 1], self.starts[e : e + 1], self.ends[e : e + 1])

    def halved(self) -> "Shard":
        """The same rows, with both halves of every environment as environments."""
        spans = []
        for n, start, end in zip(self.counts, self.starts, self.ends, strict=True):
            half = n - n // 2
            spans += [(half, min(start, half), min(end, half)), (n // 2, max(start - half, 0), max(end - half, 0))]
        return Shard(*map(tuple, zip(*spans, strict=True)))
