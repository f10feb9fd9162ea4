"""PDF."""

from typing import ClassVar, final

from invariance.core.artefacts import Artefact
from invariance.report.export import Folder
from invariance.report.formats.base import FolderFormat


@final
class PDF(FolderFormat):
    """Tables and figures as pictures."""

    about: ClassVar[str] = "pictures that scale, for papers"

    def add(self, artefact: Artefact, folder: Folder) -> None:
        folder.picture(artefact, "pdf")
