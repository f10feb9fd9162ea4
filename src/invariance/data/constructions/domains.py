"""Images in folders by domain and class."""

import os
from abc import abstractmethod
from dataclasses import replace
from pathlib import Path
from stat import S_ISDIR
from typing import ClassVar, NamedTuple, Self

import torch
from pydantic import PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor

from invariance.core.environment import Benchmark, Environment
from invariance.core.errors import BadValue, DataError, InvarianceError, UnknownName
from invariance.core.families import Categorical
from invariance.core.fields import STRICT, Share
from invariance.core.inputs import Pixels
from invariance.core.one_look import once
from invariance.core.seeding import generator
from invariance.data.base import PHOTOGRAPHS, RESNET_METHODS, SMALL_RUN, Availability, DataSet, Size, SmallerRuns
from invariance.data.formats.downloads import data_folder
from invariance.data.images.cache import Broken
from invariance.data.images.image_files import Files, ImageSize, Lister, listed, pictures, remembered, require_utf8
from invariance.models.resnet import ResNet
from invariance.recipes.presets import Preferences


class Tree(NamedTuple):
    """The files of a tree ``domain/class/image``, and the number of the domain and of the class of each, [n]."""

    files: Files
    domains: tuple[str, ...]
    classes: tuple[str, ...]
    domain: Tensor
    label: Tensor


def images_of(root: Path, images: int | None = None, lister: Lister = listed) -> Files:
    """The files of the tree below ``root``; at most ``images`` of each domain, evenly from all it has."""
    files = lister(root, [f"{domain}/{label}" for domain in _folders(root) for label in _folders(root / domain)])
    if all((root / name).is_dir() for name in files.names):
        raise DataError(f"{root} holds no images; expected folders domain/class/ with images in them")
    if images is None:
        return files
    owned: dict[str, list[int]] = {}
    for i, name in enumerate(files.names):
        owned.setdefault(name.split("/")[0], []).append(i)
    chosen = []
    for own in owned.values():
        most = min(images, len(own))
        chosen += [own[place * len(own) // most] for place in range(most)]
    return files.take(chosen)


def tree(files: Files) -> Tree:
    """Domains and classes of files, by their names."""
    parts = [name.split("/")[:2] for name in files.names]
    domains, classes = (tuple(sorted({part[level] for part in parts})) for level in (0, 1))
    domain = torch.tensor([domains.index(d) for d, _ in parts])
    label = torch.tensor([classes.index(c) for _, c in parts])
    return Tree(files, domains, classes, domain, label)


def _folders(path: Path) -> list[str]:
    try:
        seen = [entry for entry in os.scandir(path) if not entry.name.startswith(".")]
        names = sorted(entry.name for entry in seen if S_ISDIR(entry.stat().st_mode))
    except OSError as error:
        raise DataError(f"cannot read {error.filename}: {error.strerror}") from None
    require_utf8(path, names)
    return names


@dataclass(frozen=True, config=STRICT)
class Domains(DataSet):
    """Every domain is an environment. All are tested, the ``unseen`` one too, which alone is not trained on.

    Of every domain a share ``test`` tests and of those trained on a share ``validation`` validates, classes in
    proportion, drawn by the trial's seed; the rest trains. Files that hold no image are an error, or left out where
    ``broken`` is 'skip'. The middle square of an image is resized to ``image_size``; ``images`` limits their number in
    each domain.
    """

    architecture: ClassVar[ResNet] = ResNet()
    preferences: ClassVar[Preferences] = PHOTOGRAPHS
    profiles: ClassVar[Preferences] = {
        **RESNET_METHODS,
        "two-phase": {**RESNET_METHODS["two-phase"], "gamma": 0.1},
        "debiased": {"gamma_alone": 0.1},
    }
    """No cue is known to mislead here, and a penalty that outweighs the risk costs accuracy in all domains, also in
    those that are trained on (docs/stability.md)."""
    published: ClassVar[dict[str, int]] = {}
    """How many images each domain has as published."""

    unseen: str | None = None
    image_size: ImageSize = 64
    images: PositiveInt | None = None
    test: Share = 0.2
    validation: Share = 0.1
    broken: Broken = "refuse"

    @abstractmethod
    def root(self) -> Path:
        """Where the tree lies."""

    def domains(self) -> tuple[str, ...]:
        """The domains there are."""
        return tree(images_of(self.root(), self.images)).domains

    def folds(self) -> tuple[Self, ...]:
        """Leave one domain out: the same data set with every domain unseen in turn."""
        return tuple(replace(self, unseen=domain) for domain in self.domains())

    def fingerprint(self) -> str:
        try:
            root = self.root()
            return once(("images", root, self.images), lambda: images_of(root, self.images).content)
        except InvarianceError:
            return "missing"

    def size(self) -> Size:
        try:
            found = tree(images_of(self.root(), self.images, remembered))
            counts = dict(zip(found.domains, torch.bincount(found.domain).tolist(), strict=True))
        except InvarianceError:
            counts = {domain: min(n, self.images or n) for domain, n in self.published.items()}
        seen = sum(n for domain, n in counts.items() if domain != self.unseen)
        return Size(round(seen * (1 - self.test - self.validation)), (3, self.image_size, self.image_size))

    def availability(self) -> Availability:
        try:
            found = tree(images_of(root := self.root(), None, remembered))
        except InvarianceError as error:
            return Availability("missing", str(error))
        counts = dict(zip(found.domains, torch.bincount(found.domain).tolist(), strict=True))
        lacking = [f"{d} {counts.get(d, 0)} of {n}" for d, n in self.published.items() if counts.get(d, 0) < n]
        if lacking:
            return Availability("partial", f"{root}: {', '.join(lacking)} images")
        return Availability("complete", f"{root}: {len(found.files)} images of {len(found.domains)} domains")

    def load(self, seed: int, *, oracle: bool = False) -> Benchmark:
        if oracle:
            raise BadValue(f"what is spurious in the domains of {self.title} is not known; there is no oracle")
        found = tree(images_of(self.root(), self.images))
        if self.unseen is not None and self.unseen not in found.domains:
            raise UnknownName.of(f"domain of {self.title}", self.unseen, found.domains)
        images, broken = pictures(found.files, self.image_size, title=self.title, broken=self.broken)
        pixels = Pixels.of(images)
        whole = torch.ones(len(images), dtype=torch.bool)
        whole[list(broken)] = False
        parts: dict[str, list[Environment]] = {"train": [], "validation": [], "test": []}
        for number, name in enumerate(found.domains):
            own = (whole & (found.domain == number)).nonzero().flatten()
            for part, rows in self._split(own, found.label, name, seed).items():
                if len(rows):
                    parts[part].append(Environment(name, pixels[rows], found.label[rows]))
        train, validation, test = (tuple(environments) for environments in parts.values())
        if not train:
            raise DataError(f"{self.title} has no images to train on; it needs a domain besides {self.unseen}")
        if len(kinds := torch.cat([e.y for e in train]).unique()) < 2:
            only = found.classes[int(kinds)]
            raise DataError(
                f"{self.title} trains on one class alone, {only}; expected folders domain/class/ of at least two"
            )
        return Benchmark(Categorical(len(found.classes)), train, validation, test)

    def _split(self, rows: Tensor, label: Tensor, name: str, seed: int) -> dict[str, Tensor]:
        """Rows of a domain by what they are for."""
        if not len(rows):
            raise DataError(f"no image of {name} can be read; repair them or remove its folder")
        order = rows[torch.randperm(len(rows), generator=generator(seed, "split", name))]
        testing = evenly(label[order], self.test)
        if not testing.any():
            raise DataError(
                f"{name} has {len(rows)} images, too few to keep the share data.test={self.test:g} of them for "
                "testing; raise data.test, or give more images"
            )
        if name == self.unseen:
            return {"test": order[testing]}
        rest = order[~testing]
        validating = evenly(label[rest], self.validation / max(1 - self.test, 1e-9))
        if validating.all():
            raise DataError(
                f"data.test={self.test:g} and data.validation={self.validation:g} leave no image of {name} to train "
                "on; lower them"
            )
        return {"train": rest[~validating], "validation": rest[validating], "test": order[testing]}


@dataclass(frozen=True, config=STRICT)
class PublishedDomains(Domains):
    """A published collection of photographs by domain and class, looked for in the data folder ``folder``."""

    folder: ClassVar[str]
    smaller: ClassVar[SmallerRuns] = {
        "tiny": {"data": {"images": 48, "image_size": 16}, "model": {"width": 8}},
        "small": {"data": {"image_size": 96}, "model": {"width": 16}, **SMALL_RUN},
    }

    def root(self) -> Path:
        return data_folder(self.folder)


def evenly(label: Tensor, share: float) -> Tensor:
    """A ``share`` of the rows, classes in proportion as nearly as can be, [n] of bool."""
    marks = (torch.arange(len(label) + 1, dtype=torch.float64) * share + 1e-9).floor()
    return torch.zeros_like(label, dtype=torch.bool).scatter(0, label.argsort(stable=True), marks[1:] > marks[:-1])
