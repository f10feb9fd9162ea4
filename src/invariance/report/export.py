"""A page on disk: as one file of HTML, or as files of another format, one for each table and figure."""

from collections.abc import Callable
from pathlib import Path

from invariance.core.artefacts import Artefact, Figure
from invariance.core.atomic import atomic_write
from invariance.report.page import Page, render
from invariance.report.render.csv_files import comma_separated
from invariance.report.render.latex import document, latex
from invariance.report.render.markdown import markdown
from invariance.report.render.matplotlib_figures import draw
from invariance.report.render.palette import Palette, palette
from invariance.report.render.sheets import is_empty


def write_page(page: Page, path: Path) -> None:
    """The page as HTML; there whole or not at all."""
    text = render(page)
    _whole(path, lambda part: part.write_text(text, encoding="utf-8"))


def write_files(page: Page, folder: Path, how: str) -> int:
    """Every table and figure as files of a format; returns how many there are."""
    folder.mkdir(exist_ok=True)
    artefacts = [a for a in page.artefacts() if not (isinstance(a, Figure) and is_empty(a))]
    files = _Folder(folder, palette(page.artefacts()))
    for artefact in artefacts:
        files.add(artefact, how)
    if how == "latex":
        files.text("report.tex", document(artefact.name for artefact in artefacts))
    return files.many


class _Folder:
    """Writes files into a folder, each whole or not at all, and counts them."""

    def __init__(self, folder: Path, colours: Palette) -> None:
        self.folder, self.colours, self.many = folder, colours, 0

    def add(self, artefact: Artefact, how: str) -> None:
        """An artefact, and the picture of a figure where the format has a place for it."""
        name, figure = artefact.name, isinstance(artefact, Figure)
        match how:
            case "markdown":
                self.text(f"{name}.md", markdown(artefact, self.picture(artefact, "png") if figure else ""))
            case "latex":
                self.text(f"{name}.tex", latex(artefact, self.picture(artefact, "pdf", titled=False) if figure else ""))
            case "csv":
                self.text(f"{name}.csv", comma_separated(artefact))
            case _:
                self.picture(artefact, how)

    def text(self, name: str, content: str) -> None:
        """A file of text."""
        self._write(name, lambda part: part.write_text(content, encoding="utf-8"))

    def picture(self, artefact: Artefact, how: str, *, titled: bool = True) -> str:
        """A picture; returns the name of its file."""
        name = f"{artefact.name}.{how}"
        self._write(name, lambda part: draw(artefact, part, how, self.colours, titled=titled))
        return name

    def _write(self, name: str, write: Callable[[Path], object]) -> None:
        _whole(self.folder / name, write)
        self.many += 1


def _whole(path: Path, write: Callable[[Path], object]) -> None:
    with atomic_write(path) as part:
        write(part)
