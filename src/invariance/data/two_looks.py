"""Images in two looks, one for each value of the spurious bit."""

from abc import abstractmethod
from typing import NamedTuple

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor

from invariance.core import BETAS, Benchmark, Environment, Mechanism, generator
from invariance.data.base import Betas, DataSet
from invariance.families import Bernoulli
from invariance.values import STRICT, Share


class Parts(NamedTuple):
    """What makes the environments: disjoint images for each that trains, for all that validate, and for the test."""

    train: list[Mechanism]
    validation: Mechanism
    test: Mechanism


@dataclass(frozen=True, config=STRICT)
class TwoLooks(DataSet):
    """``betas`` are the training environments, ``alpha`` the label noise, there and in the test."""

    betas: Betas = (0.001, 0.3)
    alpha: Share = 0.1
    test_betas: Betas = BETAS

    @abstractmethod
    def parts(self, seed: int, oracle: bool) -> Parts:
        """The images of trial ``seed``; an oracle sees the same look twice, without its spurious part."""

    def load(self, seed: int, *, oracle: bool = False) -> Benchmark:
        train, validation, test = self.parts(seed, oracle)
        return Benchmark(
            Bernoulli(),
            self._drawn("train", train, seed),
            self._drawn("validation", [validation] * len(self.betas), seed),
            mechanism=test,
        )

    def _drawn(self, part: str, made: list[Mechanism], seed: int) -> tuple[Environment, ...]:
        return tuple(
            mechanism.environment(beta, generator(seed, part, beta))
            for mechanism, beta in zip(made, self.betas, strict=True)
        )


def dealt(t: Tensor, hands: int, random: torch.Generator) -> list[Tensor]:
    """Every row once, in random order, dealt out so that each hand has an equal share of either label."""
    order = torch.randperm(len(t), generator=random)
    by_label = [order[t[order] == label] for label in (False, True)]
    mixed = [torch.cat([rows[hand::hands] for rows in by_label]) for hand in range(hands)]
    return [rows[torch.randperm(len(rows), generator=random)] for rows in mixed]
