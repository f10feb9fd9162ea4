"""A folder of one's own images."""

from pathlib import Path
from typing import ClassVar, final

from pydantic.dataclasses import dataclass

from invariance.core.errors import BadValue
from invariance.core.fields import STRICT, expanded
from invariance.data.constructions.domains import Domains


@final
@dataclass(frozen=True, config=STRICT)
class Folder(Domains):
    """Any images in folders ``domain/class/`` below ``path``."""

    title: ClassVar[str] = "Folder"
    about: ClassVar[str] = "your own images, in folders domain/class/ below data.path"
    citation: ClassVar[str] = "yours"
    licence: ClassVar[str] = "yours"

    path: str = ""

    def root(self) -> Path:
        if not self.path:
            raise BadValue("say where the images are, in folders domain/class/: --set data.path=FOLDER")
        return expanded(self.path)
