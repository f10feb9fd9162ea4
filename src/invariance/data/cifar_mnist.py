"""CIFAR-MNIST."""

import hashlib
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple, final

import torch
from pydantic import AfterValidator, Field
from pydantic.dataclasses import dataclass
from torch import Tensor
from torch.nn.functional import pad

from invariance.core.environment import Mechanism
from invariance.core.errors import DataError
from invariance.core.fields import STRICT
from invariance.core.seeding import generator
from invariance.data.base import SMALL_RUN, Availability, Size, SmallerRuns
from invariance.data.colored_mnist import ColoredMNIST
from invariance.data.constructions.colored_idx import TRAINING
from invariance.data.constructions.counterfactual_pairs import (
    TWO_LOOKS,
    CounterfactualPairs,
    MechanismSplit,
    stratified_parts,
    two_looks_methods,
)
from invariance.data.formats.cifar import ARCHIVE, EACH, FOLDER, NAMES, batches, located, read
from invariance.data.formats.digest import digest
from invariance.data.formats.downloads import File, data_folders
from invariance.data.formats.idx import read as read_idx
from invariance.models.resnet import ResNet
from invariance.recipes.presets import Preferences

Name = Literal["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
VALIDATION = 10
"""One in this many training images validates."""


def _different(pair: tuple[Name, Name]) -> tuple[Name, Name]:
    if pair[0] == pair[1]:
        raise ValueError("expected two different classes")
    return pair


class Digits(NamedTuple):
    """Zeros and ones, each [n, 28, 28] of bytes."""

    zeros: Tensor
    ones: Tensor

    def share(self, part: int, parts: int) -> "Digits":
        """One of ``parts`` equal parts."""
        return Digits(self.zeros[part::parts], self.ones[part::parts])

    def shuffled(self, random: torch.Generator) -> "Digits":
        """In random order."""
        return Digits(*(digits[torch.randperm(len(digits), generator=random)] for digits in self))


@final
@dataclass(frozen=True, config=STRICT)
class CIFARMNIST(CounterfactualPairs):
    """A digit 0 or 1 above a photograph of one of two ``classes``; label: whether it is the second.

    The digit is the spurious bit; an oracle sees the photograph alone. CIFAR-10's training files train, a tenth of them
    validates, and its test file tests; the same holds of the digits of MNIST's files, whose last 10,000 training rows
    validate. Every photograph is paired with a zero and with a one, each digit with as few photographs as there can be,
    so that held-out photographs are paired again for every test environment. The photographs of either class are dealt
    out evenly.

    ``images`` bounds the number of photographs that train and validate, a fifth of it that of those that test.

    Lin et al. (BIRM) take cars and trucks, merge CIFAR-10's files, and test at β = 0.9 alone; Zhang et al. name planes
    and birds.
    """

    title: ClassVar[str] = "CIFAR-MNIST"
    about: ClassVar[str] = "photographs under digits; birds against planes, zeros and ones are spurious"
    citation: ClassVar[str] = (
        "Krizhevsky, Learning multiple layers of features from tiny images, 2009; LeCun et al., 1998; "
        "paired by Lin et al., Bayesian invariant risk minimization, CVPR 2022"
    )
    licence: ClassVar[str] = "free for research by common practice"
    source: ClassVar[str] = "https://www.cs.toronto.edu/~kriz/cifar.html"
    architecture: ClassVar[ResNet] = ResNet(stem="small")
    preferences: ClassVar[Preferences] = TWO_LOOKS
    profiles: ClassVar[Preferences] = two_looks_methods(tau=1500 / 10_000)
    smaller: ClassVar[SmallerRuns] = {
        "tiny": {"data": {"images": 100}, "model": {"width": 8}},
        "small": {"data": {"images": 5000}, "model": {"width": 16}, **SMALL_RUN},
    }
    files: ClassVar[tuple[File, ...]] = ColoredMNIST.files

    classes: Annotated[tuple[Name, Name], AfterValidator(_different)] = ("airplane", "bird")
    images: Annotated[int, Field(ge=100)] = 10_000

    def size(self) -> Size:
        return Size(self.images - self.images // VALIDATION, (3, 64, 32))

    def availability(self) -> Availability:
        try:
            found = located()
            if found is None:
                places = " or ".join(map(str, data_folders()))
                how = f"it is fetched when the data are first loaded, or unpack {ARCHIVE.urls[0]} there"
                return Availability("missing", f"there is no folder {FOLDER} in {places}; {how}")
            classes = read([*found.train, *found.test]).classes
        except DataError as error:
            return Availability("missing", str(error))
        here = sum(int((classes == NAMES.index(name)).sum()) for name in self.classes)
        wanted = EACH * len(self.classes)
        about = f"{found.train[0].parent}: {here} of {wanted} images of {' and '.join(self.classes)}"
        return Availability("complete" if here >= wanted else "partial", about)

    def fingerprint(self) -> str:
        try:
            found = located()
        except DataError:
            return "missing"
        photographs = digest((*found.train, *found.test)) if found else ARCHIVE.sha256
        return hashlib.sha256((super().fingerprint() + photographs).encode()).hexdigest()

    def parts(self, seed: int, oracle: bool) -> MechanismSplit:
        files = batches()
        train, t = self._taken(files.train, self.images // 2)
        test, test_t = self._taken(files.test, self.images // 10)
        random = generator(seed, "split")
        held_out, *rest = stratified_parts(t, VALIDATION, random)
        rows = torch.cat(rest)
        own = [rows[part] for part in stratified_parts(t[rows], len(self.betas), random)]
        for_train, for_validation, for_test = (digits.shuffled(random) for digits in self._digits())

        def mechanism(images: Tensor, t: Tensor, digits: Digits) -> Mechanism:
            looks = (images, images) if oracle else stacked(images, digits)
            return Mechanism(looks, t, self.alpha, self.test_betas)

        return MechanismSplit(
            [mechanism(train[part], t[part], for_train.share(e, len(own))) for e, part in enumerate(own)],
            mechanism(train[held_out], t[held_out], for_validation),
            mechanism(test, test_t, for_test),
        )

    def _taken(self, files: tuple[Path, ...], most: int) -> tuple[Tensor, Tensor]:
        """The first images of either class, as many of both, and whether they are of the second."""
        records = read(files)
        each = [torch.nonzero(records.classes == NAMES.index(name)).flatten() for name in self.classes]
        for name, rows in zip(self.classes, each, strict=True):
            if not len(rows):
                classes = ", ".join(NAMES[i] for i in records.classes.unique())
                raise DataError(f"{files[0].parent} has no {name}; it has {classes}: choose data.classes among them")
        fewest = min(most, *(len(rows) for rows in each))
        rows = torch.cat([rows[:fewest] for rows in each]).sort().values
        return records.pixels[rows], records.classes[rows] == NAMES.index(self.classes[1])

    def _digits(self) -> tuple[Digits, Digits, Digits]:
        """For training, for validation, for the test."""
        pixels, labels, test_pixels, test_labels = (read_idx(file) for file in self.files)
        parts = (
            (pixels[:TRAINING], labels[:TRAINING]),
            (pixels[TRAINING:], labels[TRAINING:]),
            (test_pixels, test_labels),
        )
        first, second, third = (Digits(images[names == 0], images[names == 1]) for images, names in parts)
        return first, second, third


def stacked(images: Tensor, digits: Digits) -> tuple[Tensor, Tensor]:
    """Every photograph below a zero, and below a one; [n, 3, 64, 32]."""
    turns = [kind[torch.arange(len(images)) % len(kind)] for kind in digits]
    above = [pad(turn, (2, 2, 2, 2)).unsqueeze(1).expand(-1, 3, -1, -1) for turn in turns]
    off, on = (torch.cat([digit, images], dim=2) for digit in above)
    return off, on
