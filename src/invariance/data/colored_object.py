"""Colored-Object."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple, final

import torch
from pydantic import AfterValidator, Field, PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor

from invariance.core.environment import Mechanism
from invariance.core.errors import DataError
from invariance.core.fields import STRICT, NonNegative, Share
from invariance.core.inputs import Pixels
from invariance.core.one_look import once
from invariance.core.seeding import generator
from invariance.data.base import SMALL_RUN, Availability, Size, SmallerRuns
from invariance.data.constructions.counterfactual_pairs import (
    TWO_LOOKS,
    CounterfactualPairs,
    MechanismSplit,
    stratified_parts,
    two_looks_methods,
)
from invariance.data.formats.downloads import data_folder
from invariance.data.images.cache import Broken, cached
from invariance.data.images.coco import Object, fingerprint, objects, pasted
from invariance.data.images.image_files import ImageSize, listed
from invariance.models.resnet import ResNet
from invariance.recipes.presets import Preferences

Light = Annotated[int, Field(ge=0, le=255)]
Colour = tuple[Light, Light, Light]
Names = Annotated[tuple[str, ...], Field(min_length=1)]
Numbers = dict[str, tuple[int, int]]


def _apart(sides: tuple[Names, Names]) -> tuple[Names, Names]:
    if both := sorted(set(sides[0]) & set(sides[1])):
        raise ValueError(f"{both[0]} is on both sides; a class belongs to one")
    return sides


class ObjectSource(NamedTuple):
    """A folder of COCO's layout: where its annotations and images are, and how many of these were published.

    ``classes`` are its two super-classes: for each class, how many groups of images train and how many test, at most;
    where there are fewer, they are divided in this proportion.
    """

    annotations: str
    images: str
    published: int
    classes: tuple[Numbers, Numbers]
    min_area: float
    repeats: int


SOURCES = {
    "coco": ObjectSource(
        "annotations/instances_train2017.json",
        "train2017",
        118_287,
        (
            {"truck": (2000, 300), "airplane": (1800, 250), "bus": (2200, 350)},
            {"zebra": (1100, 150), "dog": (1800, 300), "horse": (1500, 225), "cat": (1600, 225)},
        ),
        10_000,
        1,
    ),
    "eth80-coco": ObjectSource(
        "annotations/instances.json",
        "images",
        1_640,
        ({"car": (7, 3)}, {"cow": (7, 3), "dog": (7, 3), "horse": (7, 3)}),
        0,
        4,
    ),
}
OTHER = (2000, 300)
"""Numbers for a class that a source names none for."""
TRAINING = {"coco": 10_800, "eth80-coco": 1_476}
"""How many samples train, about, if none is repeated."""
BLACK = (0, 0, 0)
VALIDATION = 0.1
"""The share of the groups for training that validates instead."""


@final
@dataclass(frozen=True, config=STRICT)
class ColoredObject(CounterfactualPairs):
    """Objects cut out of photographs and put on a plain background; label: animals against vehicles.

    The background is the spurious bit: ``colours`` holds that of either label, by default grey (vehicles) and green
    (animals), both at three quarters of their light. An oracle sees the objects on black. Of every image the largest
    object takes part if it covers ``min_area`` pixels or more, and the whole image is resized to ``image_size``. A
    tenth of the images for training validates. Where one super-class has fewer images than the other, it is gone
    through again until both have as many: in training, validation and test alike.

    ``folder`` is COCO itself (12,000 images train, 1,800 test), or ETH-80 in COCO's format: ten physical cars, cows,
    dogs and horses each, of which three test, with all their images. ``super_classes``, ``min_area`` and ``repeats``
    are the folder's own where none are given. Every image trains ``repeats`` times, with noise and a background of its
    own each time, so that the labels of a small folder cannot be memorised: once in COCO, four times in ETH-80.
    Images are dealt out to the training environments after they were repeated: these share images, in COCO those of
    the smaller super-class.

    Differs from Lin et al.'s data: an image is used for one class alone; objects are cut out before they are resized,
    so that nothing around them shines through; and labels are as noisy in the test as in training, so that 1 − α is the
    best possible accuracy, where their test has clean ones.
    """

    title: ClassVar[str] = "Colored-Object"
    about: ClassVar[str] = "objects cut out of COCO on coloured backgrounds; animals against vehicles"
    citation: ClassVar[str] = (
        "Lin et al., Microsoft COCO, ECCV 2014; Ahmed et al., Systematic generalisation with group invariant "
        "predictions, ICLR 2021; as in Lin et al., Bayesian invariant risk minimization, CVPR 2022; "
        "ETH-80: Leibe and Schiele, Analyzing appearance and contour based methods, CVPR 2003"
    )
    licence: ClassVar[str] = "COCO: annotations CC BY 4.0, images by Flickr's terms; ETH-80: not stated"
    source: ClassVar[str] = "https://cocodataset.org/#download"
    architecture: ClassVar[ResNet] = ResNet(stem="small")
    preferences: ClassVar[Preferences] = {
        **TWO_LOOKS,
        "two-phase": {**TWO_LOOKS["two-phase"], "augment": {"shift": 4, "edge": "repeat"}},
        "debiased": {**TWO_LOOKS["debiased"], "augment": None},
    }
    """Where an image is shifted its edge is repeated, since the ground's colour is what counts here."""
    profiles: ClassVar[Preferences] = two_looks_methods(tau=1000 / 12_000)
    smaller: ClassVar[SmallerRuns] = {
        "tiny": {"data": {"image_size": 16}, "model": {"width": 8}},
        "small": {"data": {"folder": "eth80-coco"}, "model": {"width": 16}, **SMALL_RUN},
    }

    alpha: Share = 0.05
    folder: Literal["coco", "eth80-coco"] = "coco"
    super_classes: Annotated[tuple[Names, Names], AfterValidator(_apart)] | None = None
    min_area: NonNegative | None = None
    colours: tuple[Colour, Colour] = ((96, 96, 96), (0, 96, 0))
    image_size: ImageSize = 32
    repeats: PositiveInt | None = None
    broken: Broken = "refuse"
    """Whether an image that cannot be read is an error, or left out."""

    def size(self) -> Size:
        repeats = self.repeats or SOURCES[self.folder].repeats
        return Size(TRAINING[self.folder] * repeats, (3, self.image_size, self.image_size))

    def availability(self) -> Availability:
        try:
            _, photographs = self._places()
            here = len(listed(photographs.parent, [photographs.name]))
        except DataError as error:
            return Availability("missing", str(error))
        every = SOURCES[self.folder].published
        return Availability("complete" if here >= every else "partial", f"{photographs}: {here} of {every} images")

    def fingerprint(self) -> str:
        try:
            decided = (*self._places(), *self._wanted())
            return once(("objects", *decided), lambda: fingerprint(*decided))
        except DataError:
            return "missing"

    def parts(self, seed: int, oracle: bool) -> MechanismSplit:
        annotations, photographs = self._places()
        found = objects(annotations, *self._wanted())
        backgrounds = (*self.colours, BLACK)
        files = fingerprint(annotations, photographs, *self._wanted())
        images, broken = cached(
            found,
            (len(backgrounds), 3, self.image_size, self.image_size),
            partial(pasted, folder=photographs, backgrounds=backgrounds, pixels=self.image_size),
            title=self.folder,
            key=f"{photographs.resolve()} {files} {backgrounds}",
            broken=self.broken,
        )
        off, on, blank = (Pixels.of(images[:, look]) for look in range(len(backgrounds)))
        inputs = (blank, blank) if oracle else (off, on)
        t = torch.tensor([item.name in self._classes()[1] for item in found])
        whole = Mechanism(inputs, t, self.alpha, self.test_betas)
        random = generator(seed, "split")
        train, validation, test = (self._balanced(rows, t, random) for rows in self._split(found, set(broken), random))
        train = train.repeat(self.repeats or SOURCES[self.folder].repeats)
        parts = stratified_parts(t[train], len(self.betas), random)
        return MechanismSplit([whole.take(train[part]) for part in parts], whole.take(validation), whole.take(test))

    def _classes(self) -> tuple[Numbers, Numbers]:
        known = SOURCES[self.folder].classes
        if self.super_classes is None:
            return known
        numbers = {**known[0], **known[1]}
        first, second = ({name: numbers.get(name, OTHER) for name in names} for names in self.super_classes)
        return first, second

    def _wanted(self) -> tuple[tuple[str, ...], float]:
        """Names of classes, and the least area of an object."""
        first, second = self._classes()
        return (*first, *second), SOURCES[self.folder].min_area if self.min_area is None else self.min_area

    def _places(self) -> tuple[Path, Path]:
        """The file of annotations and the folder of images."""
        root, source = data_folder(self.folder), SOURCES[self.folder]
        for place in (found := (root / source.annotations, root / source.images)):
            if not place.exists():
                raise DataError(f"there is no {place}; {self.folder} needs COCO's layout: put it there")
        return found

    def _split(self, found: Sequence[Object], broken: set[int], random: torch.Generator) -> list[Tensor]:
        """Rows for training, validation and test, so that no group of images has two purposes."""
        groups: dict[str, dict[str, list[int]]] = {}
        for row, item in enumerate(found):
            if row not in broken:
                groups.setdefault(item.name, {}).setdefault(item.group, []).append(row)
        parts: tuple[list[int], list[int], list[int]] = ([], [], [])
        for name, (train, test) in {**self._classes()[0], **self._classes()[1]}.items():
            each = list(groups.get(name, {}).values())
            order = torch.randperm(len(each), generator=random)[: train + test].tolist()
            least = min(1, len(order) // 3)  # three groups are one for each purpose
            last = len(order) - max(least, round(len(order) * test / (train + test)))
            first = last - max(least, round(last * VALIDATION))
            for part, chosen in zip(parts, (order[:first], order[first:last], order[last:]), strict=True):
                part.extend(row for i in chosen for row in each[i])
        return [torch.tensor(part, dtype=torch.long) for part in parts]

    def _balanced(self, rows: Tensor, t: Tensor, random: torch.Generator) -> Tensor:
        """Rows of either label by turns, in random order, those of the rarer label as often as it takes."""
        mixed = rows[torch.randperm(len(rows), generator=random)]
        sides = [mixed[t[mixed] == label] for label in (False, True)]
        for names, side in zip(self._classes(), sides, strict=True):
            if not len(side):
                raise DataError(
                    f"{self.folder} has too few images of {', '.join(names)} to train, validate and test with; "
                    "lower data.min_area or choose other data.super_classes"
                )
        most = max(len(side) for side in sides)
        return torch.stack([side[torch.arange(most) % len(side)] for side in sides], dim=1).flatten()
