"""Which rows make up a batch, as a function of the seed and the step."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from invariance.core.seeding import generator

BLOCK = 16


class BatchSampler:
    """Which rows make up batch t: equal counts of every environment, reshuffled whenever one is used up.

    A function of the seed, the environments' names and t alone, so there is nothing to save.
    """

    def __init__(self, names: Sequence[str], counts: Sequence[int], batch_size: int, seed: int) -> None:
        self.names, self.sizes, self.seed = names, counts, seed
        self.each = max(1, min(batch_size, sum(counts)) // len(counts))
        self.counts = (self.each,) * len(counts)
        self.starts = [sum(counts[:e]) for e in range(len(counts))]
        self.shuffles: list[tuple[int, Tensor]] = [(-1, torch.empty(0))] * len(counts)
        self.block, self.table = -1, torch.empty(0)  # the rows of BLOCK batches, [BLOCK, E, each]

    def rows(self, t: int) -> Tensor:
        """Row numbers of batch ``t``, sorted by environment."""
        block, offset = divmod(t, BLOCK)
        if block != self.block:
            many = BLOCK * self.each
            streams = [torch.cat(list(self._of(e, block * many, many))) for e in range(len(self.sizes))]
            self.block, self.table = block, torch.stack([s.view(BLOCK, self.each) for s in streams], dim=1)
        return self.table[offset].flatten()

    def _of(self, e: int, start: int, many: int) -> Iterator[Tensor]:
        end = start + many
        while start < end:
            epoch, offset = divmod(start, self.sizes[e])
            part = self._shuffle(e, epoch)[offset : offset + end - start]
            yield part
            start += len(part)

    def _shuffle(self, e: int, epoch: int) -> Tensor:
        if self.shuffles[e][0] != epoch:
            order = torch.randperm(self.sizes[e], generator=generator(self.seed, "order", self.names[e], epoch))
            self.shuffles[e] = (epoch, order + self.starts[e])
        return self.shuffles[e][1]
