"""Grey images whose colour is the spurious bit."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor

from invariance.core.environment import BETAS, Benchmark, Environment, Mechanism
from invariance.core.families import Bernoulli
from invariance.core.fields import STRICT, Share
from invariance.core.seeding import generator
from invariance.data.base import Betas, DataSet
from invariance.data.constructions.shifts import EVEN, Halves, Kind, Looks, coloured, fractions, shaded, thinned


class Images(NamedTuple):
    """Grey images [n, h, w] of bytes or of numbers in [0, 1], their clean binary labels [n], and their classes [n]."""

    pixels: Tensor
    t: Tensor
    classes: Tensor

    def take(self, rows: Tensor | slice) -> "Images":
        """Some of them."""
        return Images(self.pixels[rows], self.t[rows], self.classes[rows])


class Split(NamedTuple):
    """Disjoint images for training, validation and test."""

    train: Images
    validation: Images
    test: Images


@dataclass(frozen=True, config=STRICT)
class ColoredImages(DataSet):
    """Two-channel images: colour s puts the image into channel s and leaves the other one black.

    ``betas`` are the training environments, ``alpha`` the label noise. A covariate ``shift`` lets training and
    validation environments differ in more than β, the more so the smaller ``p`` (`shifts.py`): in how many images
    of either class they have, in which digits stand for a class, or in the shades of their colours, four channels then.
    Without a shift, ``p`` says nothing.
    """

    halves: ClassVar[Halves]
    """The classes that a shift of digits weighs against each other."""

    betas: Betas = (0.1, 0.2)
    alpha: Share = 0.25
    test_betas: Betas = BETAS
    shift: Kind = "none"
    p: Share = 0.5

    @abstractmethod
    def split(self, seed: int) -> Split:
        """The images of trial ``seed``."""

    @abstractmethod
    def rows(self, images: int, seed: int) -> list[Tensor]:
        """Which training images each environment gets."""

    def load(self, seed: int, *, oracle: bool = False) -> Benchmark:
        train, validation, test = (self._taking_part(images) for images in self.split(seed))
        own = [train.take(rows) for rows in self.rows(len(train.t), seed)]
        return Benchmark(
            Bernoulli(),
            self._environments("train", own, seed, oracle),
            self._environments("validation", [validation] * len(self.betas), seed, oracle),
            mechanism=self._mechanism(test, EVEN, generator(seed, self.shift, "test"), oracle),
        )

    def _taking_part(self, images: Images) -> Images:
        if self.shift != "digit":
            return images
        first, second = self.halves
        return images.take(_among(images.classes, first + second))

    def _environments(self, part: str, own: Sequence[Images], seed: int, oracle: bool) -> tuple[Environment, ...]:
        made = []
        for images, beta, fraction in zip(own, self.betas, fractions(self.betas, self.p), strict=True):
            random = generator(seed, self.shift, part, beta)
            mechanism = self._mechanism(self._thinned(images, fraction, random), fraction, random, oracle)
            made.append(mechanism.environment(beta, generator(seed, part, beta)))
        return tuple(made)

    def _thinned(self, images: Images, fraction: float, random: torch.Generator) -> Images:
        match self.shift:
            case "class":
                first = ~images.t
            case "digit":
                first = _among(images.classes, self.halves[0])
            case _:
                return images
        return images.take(thinned(images.t, first, fraction, random))

    def _mechanism(self, images: Images, fraction: float, random: torch.Generator, oracle: bool) -> Mechanism:
        grey = images.pixels.unsqueeze(1)  # [n, 1, h, w]
        looks = (grey, grey) if oracle else self._looks(grey, fraction, random)
        return Mechanism(looks, images.t, self.alpha, self.test_betas)

    def _looks(self, grey: Tensor, fraction: float, random: torch.Generator) -> Looks:
        return shaded(grey, fraction, random) if self.shift == "colour" else coloured(grey)


def _among(classes: Tensor, some: tuple[int, ...]) -> Tensor:
    return torch.isin(classes, torch.tensor(some, dtype=classes.dtype))
