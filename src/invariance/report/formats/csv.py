"""CSV."""

from typing import ClassVar, final

from invariance.core.artefacts import Artefact
from invariance.report.export import Folder
from invariance.report.formats.base import FolderFormat
from invariance.report.render.csv_files import comma_separated


@final
class CSV(FolderFormat):
    """Numbers for machines."""

    about: ClassVar[str] = "every number in a row of its own, and every seed, for machines"
    everything: ClassVar[bool] = True

    def add(self, artefact: Artefact, folder: Folder) -> None:
        folder.text(f"{artefact.name}.csv", comma_separated(artefact))
