"""VLCS."""

from pathlib import Path
from typing import ClassVar, final

from pydantic.dataclasses import dataclass

from invariance.core.fields import STRICT
from invariance.data.base import PHOTOGRAPHS, SMALL_RUN, SmallerRuns
from invariance.data.constructions.domains import Domains
from invariance.data.formats.downloads import data_folder
from invariance.models.resnet import ResNet
from invariance.recipes.presets import Preferences


@final
@dataclass(frozen=True, config=STRICT)
class VLCS(Domains):
    """Photographs of five classes from four collections: VOC2007, LabelMe, Caltech101 and SUN09.

    The unseen domain is ``SUN09``, the last in the ICLR 2023 paper's order. Images are looked for in ``VLCS/``; of the
    other domains, those that are there train.
    """

    title: ClassVar[str] = "VLCS"
    about: ClassVar[str] = "photographs of five classes from four collections; 10,729 images"
    citation: ClassVar[str] = "Fang et al., Unbiased metric learning, ICCV 2013"
    licence: ClassVar[str] = "not stated"
    source: ClassVar[str] = "http://www.eecs.qmul.ac.uk/~dl307/project_iccv2017"
    architecture: ClassVar[ResNet] = ResNet()
    preferences: ClassVar[Preferences] = PHOTOGRAPHS
    smaller: ClassVar[SmallerRuns] = {
        "tiny": {"data": {"images": 48, "image_size": 16}, "model": {"width": 8}},
        "small": {"data": {"image_size": 96}, "model": {"width": 16}, **SMALL_RUN},
    }
    published: ClassVar[dict[str, int]] = {"Caltech101": 1415, "LabelMe": 2656, "SUN09": 3282, "VOC2007": 3376}

    unseen: str | None = "SUN09"

    def root(self) -> Path:
        return data_folder("VLCS")
