"""Coloured images from MNIST's file format."""

from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from invariance.core.fields import STRICT
from invariance.core.seeding import generator
from invariance.data.base import Size
from invariance.data.constructions.coloring import ColoredImages, Images, Split
from invariance.data.formats.idx import read

TRAINING = 50_000


@dataclass(frozen=True, config=STRICT)
class ColoredIDX(ColoredImages):
    """Every second pixel of 28×28 images: 14×14, two channels of bytes.

    The first 50,000 rows of the training file are shuffled by the trial's seed and dealt out to the
    environments, the other 10,000 validate, and the test file tests. With ``test_pool='train-file'`` these two change
    places: the test is that of Arjovsky et al.'s code.
    """

    images: Annotated[int, Field(ge=2, le=TRAINING)] = TRAINING
    """Of how many rows of the training file the training images are taken."""
    test_pool: Literal["test-file", "train-file"] = "test-file"
    kept_share: ClassVar[float] = 1.0
    """The share of the file's images that take part."""

    @abstractmethod
    def keep(self, labels: Tensor) -> Tensor:
        """Which of the file's images take part, [n] of bool."""

    @abstractmethod
    def binary(self, labels: Tensor) -> Tensor:
        """The clean binary label of the file's classes, [n] of bool."""

    def split(self, seed: int) -> Split:
        train_pixels, train_labels, test_pixels, test_labels = (read(file) for file in self.files)
        train = self._images(train_pixels[: self.images], train_labels[: self.images])
        held_out = self._images(train_pixels[TRAINING:], train_labels[TRAINING:])
        fresh = self._images(test_pixels, test_labels)
        return Split(train, held_out, fresh) if self.test_pool == "test-file" else Split(train, fresh, held_out)

    def _images(self, pixels: Tensor, labels: Tensor) -> Images:
        taking_part = self.keep(labels)
        classes = labels[taking_part]
        return Images(pixels[taking_part, ::2, ::2], self.binary(classes), classes)

    def size(self) -> Size:
        samples = self.images / 2 if self.shift in ("class", "digit") else self.images
        return Size(round(self.kept_share * samples), (4 if self.shift == "colour" else 2, 14, 14))

    def rows(self, images: int, seed: int) -> list[Tensor]:
        order = torch.randperm(images, generator=generator(seed, "split"))
        return [order[e :: len(self.betas)] for e in range(len(self.betas))]
