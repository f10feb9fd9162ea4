"""Two bits: the smallest data with a spurious cue, whose invariant optimum is known."""

from typing import ClassVar, final

import torch
from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from invariance.core.environment import BETAS, Benchmark, Mechanism
from invariance.core.families import Bernoulli
from invariance.core.fields import STRICT, Share
from invariance.core.seeding import generator
from invariance.data.base import Betas, DataSet, Size
from invariance.models.mlp import MLP
from invariance.recipes.presets import Preferences


@final
@dataclass(frozen=True, config=STRICT)
class TwoBit(DataSet):
    """x = (±1, ±1): the first bit agrees with the label with probability 1 − α everywhere, the second with 1 − β.

    The invariant optimum reads the first bit alone: logit ±ln((1 − α)/α), accuracy 1 − α at every β.
    """

    title: ClassVar[str] = "Two-Bit"
    about: ClassVar[str] = "two bits, one of them spurious; the invariant optimum is known in closed form"
    citation: ClassVar[str] = "Kamath et al., Does invariant risk minimization capture invariance?, AISTATS 2021"
    licence: ClassVar[str] = "generated"
    architecture: ClassVar[MLP] = MLP(width=16)
    preferences: ClassVar[Preferences] = {
        "full-batch": {"lr": 1e-2},
        "small-batch": {"lr": 1e-2},
        "short": {"lr": 1e-2},
        "two-phase": {"lr": 1e-2},
        "debiased": {"lr": 1e-2},
    }

    betas: Betas = (0.1, 0.2)
    alpha: Share = 0.25
    test_betas: Betas = BETAS
    samples: PositiveInt = 25_000
    """In each environment."""

    def size(self) -> Size:
        return Size(self.samples * len(self.betas), (2,))

    def load(self, seed: int, *, oracle: bool = False) -> Benchmark:
        def mechanism(purpose: str) -> Mechanism:
            t = torch.rand(self.samples, generator=generator(seed, purpose)) < 0.5
            off, on = (torch.stack([2.0 * t - 1, torch.full_like(t, s, dtype=torch.float)], 1) for s in (-1, 1))
            inputs = (off[:, :1], off[:, :1]) if oracle else (off, on)
            return Mechanism(inputs, t, self.alpha, self.test_betas)

        train, validation = (
            tuple(mechanism(f"{part} {b}").environment(b, generator(seed, part, b)) for b in self.betas)
            for part in ("train", "validation")
        )
        return Benchmark(Bernoulli(), train, validation, mechanism=mechanism("test"))
