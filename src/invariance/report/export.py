"""Files of a report, each there whole or not at all."""

from collections.abc import Callable
from pathlib import Path

from invariance.core.artefacts import Artefact
from invariance.core.atomic import atomic_write
from invariance.core.errors import BadValue
from invariance.report.html_page import render
from invariance.report.page import Page
from invariance.report.render.palette import Palette


def write_page(page: Page, path: Path) -> None:
    """The page as HTML."""
    write_text(path, render(page))


def write_text(path: Path, text: str) -> None:
    """A file of text."""
    _whole(path, lambda part: part.write_text(text, encoding="utf-8"))


class Folder:
    """Writes files into a folder and counts them; all its pictures have the same ``colours``."""

    def __init__(self, path: Path, colours: Palette) -> None:
        self.path, self.colours, self.files = path, colours, 0
        path.mkdir(exist_ok=True)

    def text(self, name: str, content: str) -> None:
        """A file of text."""
        write_text(self.path / name, content)
        self.files += 1

    def picture(self, artefact: Artefact, how: str, *, titled: bool = True) -> str:
        """A picture as png, jpg, svg or pdf; returns the name of its file."""
        try:
            from invariance.report.render.matplotlib_figures import draw  # a page does without; it takes half a second
        except ModuleNotFoundError as error:
            raise BadValue(f"a picture needs {error.name}: pip install 'invariance[report]'") from None
        name = f"{artefact.name}.{how}"
        _whole(self.path / name, lambda part: draw(artefact, part, how, self.colours, titled=titled))
        self.files += 1
        return name


def _whole(path: Path, write: Callable[[Path], object]) -> None:
    with atomic_write(path) as part:
        write(part)
