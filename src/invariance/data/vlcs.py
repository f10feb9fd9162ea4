"""VLCS."""

from typing import ClassVar, final

from pydantic.dataclasses import dataclass

from invariance.core.fields import STRICT
from invariance.data.constructions.domains import PublishedDomains


@final
@dataclass(frozen=True, config=STRICT)
class VLCS(PublishedDomains):
    """Photographs of five classes from four collections: VOC2007, LabelMe, Caltech101 and SUN09.

    The unseen domain is ``SUN09``, the last in the ICLR 2023 paper's order. Images are looked for in ``VLCS/``; of the
    other domains, those that are there train.
    """

    title: ClassVar[str] = "VLCS"
    about: ClassVar[str] = "photographs of five classes from four collections; 10,729 images"
    citation: ClassVar[str] = "Fang et al., Unbiased metric learning, ICCV 2013"
    licence: ClassVar[str] = "not stated"
    source: ClassVar[str] = "http://www.eecs.qmul.ac.uk/~dl307/project_iccv2017"
    folder: ClassVar[str] = "VLCS"
    published: ClassVar[dict[str, int]] = {"Caltech101": 1415, "LabelMe": 2656, "SUN09": 3282, "VOC2007": 3376}

    unseen: str | None = "SUN09"
