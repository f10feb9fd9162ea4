"""PACS."""

from typing import ClassVar, final

from pydantic.dataclasses import dataclass

from invariance.core.fields import STRICT
from invariance.data.constructions.domains import PublishedDomains


@final
@dataclass(frozen=True, config=STRICT)
class PACS(PublishedDomains):
    """Photographs, art paintings, cartoons and sketches of seven classes.

    The unseen domain is ``photo``, the last in the ICLR 2023 paper's order. Images are looked for in ``PACS/``.
    """

    title: ClassVar[str] = "PACS"
    about: ClassVar[str] = "photographs, art paintings, cartoons and sketches of seven classes; 9,991 images"
    citation: ClassVar[str] = "Li et al., Deeper, broader and artier domain generalization, ICCV 2017"
    licence: ClassVar[str] = "not stated"
    source: ClassVar[str] = "http://www.eecs.qmul.ac.uk/~dl307/project_iccv2017"
    folder: ClassVar[str] = "PACS"
    published: ClassVar[dict[str, int]] = {"art_painting": 2048, "cartoon": 2344, "photo": 1670, "sketch": 3929}

    unseen: str | None = "photo"
