"""Counterfactual pairs: every image in two looks, one for each value of the spurious bit."""

from abc import abstractmethod
from typing import NamedTuple

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor

from invariance.core.environment import BETAS, Benchmark, Environment, Mechanism
from invariance.core.errors import DataError
from invariance.core.families import Bernoulli
from invariance.core.fields import STRICT, Share
from invariance.core.seeding import generator
from invariance.data.base import RESNET, RESNET_METHODS, Betas, DataSet
from invariance.recipes.presets import Preferences

TWO_LOOKS: Preferences = {
    **RESNET,
    "short": {**RESNET["short"], "warmup": 0.1},
    "two-phase": {
        **RESNET["two-phase"],
        "penalty_batch_size": 1024,
        "epochs": 25,
        "warmup": 0.6,
        "augment": {"shift": 4},
    },
}
"""For a ResNet on images in two looks, which soon memorises labels, and then there is little left to penalise.

In a short run the penalty sets in after a tenth of the updates, as in Lin et al.'s runs (after 40 of 500 on
CIFAR-MNIST, 80 of 800 on Colored-Object). In two phases images are mirrored and shifted, so that 15 epochs of ERM learn
shapes and not labels, and the batches of the second phase are large, so that gradients of environments can be compared
(docs/stability.md).
"""


def two_looks_methods(tau: float) -> Preferences:
    """What methods need with it: BIRM's τ by its authors' command, in two phases SparseIRM's masks with the penalty."""
    return {
        "small-batch": {**RESNET_METHODS["small-batch"], "tau": tau},
        "two-phase": {"start": 0.942, "end": 0.963, "tau": tau},
    }


class MechanismSplit(NamedTuple):
    """What makes the environments: images for each that trains, for all that validate, and for the test.

    No image has two of these purposes; training environments may share some, as Colored-Object's do.
    """

    train: list[Mechanism]
    validation: Mechanism
    test: Mechanism


@dataclass(frozen=True, config=STRICT)
class CounterfactualPairs(DataSet):
    """``betas`` are the training environments, ``alpha`` the label noise, there and in the test."""

    betas: Betas = (0.001, 0.3)
    alpha: Share = 0.1
    test_betas: Betas = BETAS

    @abstractmethod
    def parts(self, seed: int, oracle: bool) -> MechanismSplit:
        """The images of trial ``seed``; an oracle sees the same look twice, without its spurious part."""

    def load(self, seed: int, *, oracle: bool = False) -> Benchmark:
        train, validation, test = self.parts(seed, oracle)
        if not all(len(made) for made in (*train, validation, test)):
            raise DataError(
                f"{self.title} has too few images here for {len(train)} training environments, validation and test; "
                "give more, or fewer data.betas"
            )
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


def stratified_parts(t: Tensor, parts: int, random: torch.Generator) -> list[Tensor]:
    """All rows in random order, split into ``parts`` parts with an equal share of either label each."""
    order = torch.randperm(len(t), generator=random)
    by_label = [order[t[order] == label] for label in (False, True)]
    mixed = [torch.cat([rows[part::parts] for rows in by_label]) for part in range(parts)]
    return [rows[torch.randperm(len(rows), generator=random)] for rows in mixed]
