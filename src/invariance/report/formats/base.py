"""What a format is: the whole page in one file, or a folder with a file for each table and figure."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from invariance.core.artefacts import Artefact, Figure
from invariance.core.errors import BadValue
from invariance.report.export import Folder, write_text
from invariance.report.page import Page
from invariance.report.render.palette import palette
from invariance.report.render.sheets import is_empty


class Format(ABC):
    """How a page is written to disk. The name of its file is what ``--format`` takes."""

    about: ClassVar[str]
    """What it writes."""
    output: ClassVar[str]
    """Where to, unless a path is given."""

    @abstractmethod
    def check(self, path: Path) -> None:
        """Refuse a path that could not be written, before anything is read."""

    @abstractmethod
    def write(self, page: Page, path: Path) -> str:
        """Write the page; returns what was written, in words."""


class FileFormat(Format):
    """The whole page in one file."""

    @abstractmethod
    def text(self, page: Page) -> str:
        """What stands in the file."""

    def check(self, path: Path) -> None:
        """A file in a folder that is there."""
        if path.is_dir():
            raise BadValue(f"cannot write {path}: it is a folder; give a file, e.g. -o {path / self.output}")
        _check_parent(path)

    def write(self, page: Page, path: Path) -> str:
        """The file."""
        write_text(path, self.text(page))
        return f"report: {path}"


class FolderFormat(Format):
    """A file, or several, for each table and figure."""

    output: ClassVar[str] = "report"
    everything: ClassVar[bool] = False
    """Whether long data are written too: every run, every seed, every history."""

    @abstractmethod
    def add(self, artefact: Artefact, folder: Folder) -> None:
        """Write a table or figure, by ``folder.text`` and ``folder.picture``."""

    def finish(self, artefacts: Sequence[Artefact], folder: Folder) -> None:
        """Write what belongs to all of them."""

    def check(self, path: Path) -> None:
        """A folder, or a place for one."""
        if path.exists() and not path.is_dir():
            raise BadValue(f"cannot write to {path}: it is no folder, and this format needs one for its files")
        _check_parent(path)

    def write(self, page: Page, path: Path) -> str:
        """Everything but figures in which nothing is drawn."""
        shown = list(page.artefacts(folded=self.everything))
        folder = Folder(path, palette(shown))
        artefacts = [a for a in shown if not (isinstance(a, Figure) and is_empty(a))]
        for artefact in artefacts:
            self.add(artefact, folder)
        self.finish(artefacts, folder)
        return f"{folder.files} files: {path}"


def _check_parent(path: Path) -> None:
    if not path.parent.is_dir():
        raise BadValue(f"cannot write {path}: there is no folder {path.parent}")
