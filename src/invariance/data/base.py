"""What a data set is."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import AfterValidator, Field
from pydantic.dataclasses import dataclass

from invariance.core.environment import Benchmark
from invariance.core.fields import STRICT, Share
from invariance.data.formats.downloads import File
from invariance.models.base import Architecture
from invariance.recipes.presets import Preferences


class Size(NamedTuple):
    """What a run's cost depends on: about how many training samples there are, and the shape of one."""

    samples: int
    shape: tuple[int, ...]


class Availability(NamedTuple):
    """What is here of data that are a folder, not published files: how much, and in words."""

    here: Literal["complete", "partial", "missing"]
    about: str


RESNET: Preferences = {
    "small-batch": {
        "batch_size": 256,
        "lr": 0.1,
        "schedule": {"kind": "steps", "at": (0.5, 0.75)},
        "step": "sgd",
    },
    "short": {"batch_size": 96, "epochs": 8, "lr": 1e-3, "l2_scale": 1.0, "dropout": 0.0},
    "two-phase": {
        "batch_size": 96,
        "penalty_batch_size": 384,
        "epochs": 10,
        "warmup": 3 / 7,  # of these epochs; a method that has more of them has a smaller share
        "lr": 1e-3,
        "dropout": 0.0,
    },
    "debiased": {"batch_size": 96, "epochs": 8, "lr": 1e-3, "l2_scale": 1.0, "dropout": 0.0, "augment": {"shift": 4}},
}
"""What a ResNet-18 needs: SGD as in the ICLR 2023 paper's protocol, and small batches for a processor.

The paper's main text has batches of 256, its appendix 128. With debiasing, images are mirrored and shifted: else a
ResNet-18 soon memorises a few thousand.
"""
RESNET_METHODS: Preferences = {
    "small-batch": {"l2": 2.5e-4, "inner_lr": 0.1, "score_rate": 0.06},
    "two-phase": {"start": 0.76, "end": 0.84},
}
"""What methods need on ResNets. With SGD at a rate of 0.1, that is a weight decay of 5·10⁻⁴, which is twice l2,
BLOC-IRM's heads at the extractor's rate, as in the paper, and SparseIRM's scores at their authors' 6·10⁻³. In two
phases, SparseIRM drops weights once the penalty is on, after three quarters of the updates."""
PHOTOGRAPHS: Preferences = {
    **RESNET,
    "short": {**RESNET["short"], "augment": {"shift": 4}},
    "two-phase": {**RESNET["two-phase"], "augment": {"shift": 4}},
}
"""The same, with images mirrored and shifted."""
SMALL_RUN: Mapping[str, Mapping[str, Any]] = {
    "evaluation": {"checkpoints": 4, "train_rows": 500},
    "recipes": {"short": "debiased"},
}
"""A small run on images: measured less, as a pass over the data costs what training on them does, and by the debiased
recipe in place of ``short``, in whose few epochs penalties alone do not hold a ResNet."""

Smaller = Literal["tiny", "small"]
"""Versions of a data set for less than the whole experiment: to see that everything works, and for first numbers."""
SmallerRuns = Mapping[Smaller, Mapping[str, Mapping[str, Any]]]
"""Changed fields by section of a run, and under ``recipes`` what replaces the recipes of a scale."""


def _different(betas: tuple[float, ...]) -> tuple[float, ...]:
    if len({f"{beta:g}" for beta in betas}) < len(betas):
        raise ValueError("every β makes an environment of its own; name each once")
    return betas


Betas = Annotated[tuple[Share, ...], Field(min_length=1), AfterValidator(_different)]


@dataclass(frozen=True, config=STRICT)
class DataSet(ABC):
    """A benchmark that can be loaded; its fields decide its construction."""

    title: ClassVar[str]
    about: ClassVar[str]
    citation: ClassVar[str]
    licence: ClassVar[str]
    source: ClassVar[str] = ""
    """Where its publisher offers it."""
    files: ClassVar[tuple[File, ...]] = ()
    architecture: ClassVar[Architecture]
    """The model the literature uses on it."""
    preferences: ClassVar[Preferences] = {}
    """What this data set needs changed in a recipe, by the recipe's protocol; wins over what a method prefers."""
    profiles: ClassVar[Preferences] = {}
    """What it needs changed in methods that have such fields, by the recipe's protocol; wins over theirs."""
    smaller: ClassVar[SmallerRuns] = {}
    """What studies change here at the scales that ask for a smaller version."""

    def size(self) -> Size:
        """How large it is; by loading it, unless a data set knows better."""
        benchmark = self.load(0)
        return Size(sum(len(e) for e in benchmark.train), benchmark.input_shape)

    def availability(self) -> Availability | None:
        """What is here of a folder of data; None where data are embedded or published ``files``."""
        return None

    def fingerprint(self) -> str:
        """What changes when the data behind this data set change: a hash of its files."""
        return hashlib.sha256("".join(file.sha256 for file in self.files).encode()).hexdigest()

    @abstractmethod
    def load(self, seed: int, *, oracle: bool = False) -> Benchmark:
        """The benchmark of trial ``seed``; an ``oracle`` sees inputs without their spurious part."""
