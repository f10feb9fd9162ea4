"""Grey images whose colour is the spurious bit."""

from abc import abstractmethod
from typing import NamedTuple

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor

from invariance.core import BETAS, Benchmark, Mechanism, generator
from invariance.data.base import Betas, DataSet
from invariance.families import Bernoulli
from invariance.values import STRICT, Share


class Images(NamedTuple):
    """Grey images [n, h, w] in [0, 1] and their clean binary labels [n]."""

    pixels: Tensor
    t: Tensor

    def take(self, rows: Tensor | slice) -> "Images":
        """Some of them."""
        return Images(self.pixels[rows], self.t[rows])


class Split(NamedTuple):
    """Disjoint images for training, validation and test."""

    train: Images
    validation: Images
    test: Images


@dataclass(frozen=True, config=STRICT)
class ColoredImages(DataSet):
    """Two-channel images: colour s puts the image into channel s and leaves the other one black.

    ``betas`` are the training environments, ``alpha`` the label noise.
    """

    betas: Betas = (0.1, 0.2)
    alpha: Share = 0.25
    test_betas: Betas = BETAS

    @abstractmethod
    def split(self, seed: int) -> Split:
        """The images of trial ``seed``."""

    @abstractmethod
    def rows(self, images: int, seed: int) -> list[Tensor]:
        """Which training images each environment gets."""

    def load(self, seed: int, *, oracle: bool = False) -> Benchmark:
        split = self.split(seed)
        train, validation, test = (self._mechanism(images, oracle) for images in split)
        own = self.rows(len(train), seed)
        return Benchmark(
            Bernoulli(),
            tuple(
                train.take(rows).environment(beta, generator(seed, "train", beta))
                for rows, beta in zip(own, self.betas, strict=True)
            ),
            tuple(validation.environment(beta, generator(seed, "validation", beta)) for beta in self.betas),
            mechanism=test,
        )

    def _mechanism(self, images: Images, oracle: bool) -> Mechanism:
        grey = images.pixels.unsqueeze(1)  # [n, 1, h, w]
        black = torch.zeros_like(grey)
        inputs = (grey, grey) if oracle else (torch.cat([grey, black], 1), torch.cat([black, grey], 1))
        return Mechanism(inputs, images.t, self.alpha, self.test_betas)
