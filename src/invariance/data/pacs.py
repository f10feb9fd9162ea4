"""PACS."""

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
class PACS(Domains):
    """Photographs, art paintings, cartoons and sketches of seven classes.

    The unseen domain is ``photo``, the last in the ICLR 2023 paper's order. Images are looked for in ``PACS/``.
    """

    title: ClassVar[str] = "PACS"
    about: ClassVar[str] = "photographs, art paintings, cartoons and sketches of seven classes; 9,991 images"
    citation: ClassVar[str] = "Li et al., Deeper, broader and artier domain generalization, ICCV 2017"
    licence: ClassVar[str] = "not stated"
    source: ClassVar[str] = "http://www.eecs.qmul.ac.uk/~dl307/project_iccv2017"
    architecture: ClassVar[ResNet] = ResNet()
    preferences: ClassVar[Preferences] = PHOTOGRAPHS
    smaller: ClassVar[SmallerRuns] = {
        "tiny": {"data": {"images": 48, "image_size": 16}, "model": {"width": 8}},
        "small": {"data": {"image_size": 96}, "model": {"width": 16}, **SMALL_RUN},
    }
    published: ClassVar[dict[str, int]] = {"art_painting": 2048, "cartoon": 2344, "photo": 1670, "sketch": 3929}

    unseen: str | None = "photo"

    def root(self) -> Path:
        return data_folder("PACS")
