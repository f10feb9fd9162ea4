"""LaTeX."""

from collections.abc import Sequence
from typing import ClassVar, final

from invariance.core.artefacts import Artefact, Figure
from invariance.report.export import Folder
from invariance.report.formats.base import FolderFormat
from invariance.report.render.latex import document, latex


@final
class LaTeX(FolderFormat):
    """Floats to be included, with a PDF beside each figure, and a document that includes them all."""

    about: ClassVar[str] = "LaTeX floats, figures with a PDF, and report.tex, which includes them all"

    def add(self, artefact: Artefact, folder: Folder) -> None:
        picture = folder.picture(artefact, "pdf", titled=False) if isinstance(artefact, Figure) else ""
        folder.text(f"{artefact.name}.tex", latex(artefact, picture))

    def finish(self, artefacts: Sequence[Artefact], folder: Folder) -> None:
        folder.text("report.tex", document(artefact.name for artefact in artefacts))
