"""Markdown."""

from typing import ClassVar, final

from invariance.core.artefacts import Artefact, Figure
from invariance.report.export import Folder
from invariance.report.formats.base import FolderFormat
from invariance.report.render.markdown import markdown


@final
class Markdown(FolderFormat):
    """GitHub-flavoured, with a PNG beside each figure."""

    about: ClassVar[str] = "GitHub-flavoured Markdown, figures with a PNG"

    def add(self, artefact: Artefact, folder: Folder) -> None:
        picture = folder.picture(artefact, "png") if isinstance(artefact, Figure) else ""
        folder.text(f"{artefact.name}.md", markdown(artefact, picture))
