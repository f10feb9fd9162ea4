"""Colored-Digits: the embedded default, nothing to download."""

from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, final

import numpy as np
import torch
from pydantic import PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor

from invariance.core.fields import STRICT
from invariance.core.seeding import generator
from invariance.data.base import Size
from invariance.data.constructions.coloring import ColoredImages, Images, Split
from invariance.data.constructions.shifts import Halves
from invariance.models.mlp import MLP
from invariance.recipes.presets import Preferences

VALIDATION, TEST = 180, 360


def digits_file() -> Path:
    """scikit-learn's file of digits; importing its reader would take longer than a small run."""
    package = find_spec("sklearn")
    assert package  # noqa: S101 - it is installed with this package
    assert package.origin  # noqa: S101
    return Path(package.origin).with_name("datasets") / "data" / "digits.csv.gz"


@final
@dataclass(frozen=True, config=STRICT)
class ColoredDigits(ColoredImages):
    """scikit-learn's 1,797 handwritten digits (8×8), coloured like Colored-MNIST; label: digit < 5.

    1,257 images train, 180 validate, 360 test, split by the trial's seed. Every environment holds ``draws`` draws of
    (image, noisy label, colour) from its training images, so that label noise cannot be memorised.
    """

    title: ClassVar[str] = "Colored-Digits"
    about: ClassVar[str] = "scikit-learn's handwritten digits, coloured; embedded, nothing to download"
    citation: ClassVar[str] = "Alpaydin and Kaynak, Optical recognition of handwritten digits, UCI repository, 1998"
    licence: ClassVar[str] = "CC BY 4.0"
    architecture: ClassVar[MLP] = MLP(width=128)
    preferences: ClassVar[Preferences] = {
        "two-phase": {  # short, with one first phase for all methods, so that runs share it
            "penalty_batch_size": 1024,
            "lr": 2e-3,
            "epochs": 10,
            "warmup": 0.7,
            "schedule": {"kind": "drop", "factor": 0.5},
        }
    }
    profiles: ClassVar[Preferences] = {"two-phase": {"start": 0.74, "end": 0.83}}  # SparseIRM prunes after the switch
    halves: ClassVar[Halves] = ((1, 2, 6, 7), (3, 4, 8, 9))

    draws: PositiveInt = 15_000

    def split(self, seed: int) -> Split:
        table = torch.from_numpy(np.loadtxt(digits_file(), delimiter=","))  # 64 pixels from 0 to 16, and the digit
        order = torch.randperm(len(table), generator=generator(seed, "split"))
        pixels = table[order, :-1].float().unflatten(1, (8, 8)) / 16
        classes = table[order, -1].long()
        images = Images(pixels, classes < 5, classes)
        first, second = len(order) - VALIDATION - TEST, len(order) - TEST
        return Split(images.take(slice(first)), images.take(slice(first, second)), images.take(slice(second, None)))

    def size(self) -> Size:
        return Size(self.draws * len(self.betas), (4 if self.shift == "colour" else 2, 8, 8))

    def rows(self, images: int, seed: int) -> list[Tensor]:
        return [torch.randint(images, (self.draws,), generator=generator(seed, "draws", beta)) for beta in self.betas]
