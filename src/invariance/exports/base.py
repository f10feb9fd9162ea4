"""What an export format is: it writes a trained model as a file that another program reads."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, NamedTuple

from pydantic.dataclasses import dataclass

from invariance.core.errors import BadValue
from invariance.core.fields import STRICT
from invariance.exports.exportable import Exportable

TOLERANCE = 1e-5
"""The largest difference between the predictions of a model and of its file; of numbers, in standard deviations."""


class FileInput(NamedTuple):
    """What a file takes: the name of an input, its type and shape, and what it means."""

    name: str
    type: str
    about: str


class Written(NamedTuple):
    """A file, what it takes and gives, and the largest difference from the model's own predictions."""

    path: Path
    inputs: tuple[FileInput, ...]
    outputs: tuple[FileInput, ...]
    difference: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, config=STRICT)
class ExportFormat(ABC):
    """A kind of file."""

    title: ClassVar[str]
    suffix: ClassVar[str]
    extra: ClassVar[str] = ""
    """The extra of this package that it needs."""

    @abstractmethod
    def write(self, model: Exportable, path: Path) -> Written:
        """Write the file, read it again, and compare its predictions with the model's."""

    def checked(self, path: Path) -> Path:
        """The path, if a file of this format can be written there."""
        if path.suffix != self.suffix:
            raise BadValue(f"cannot write {path}: a file for {self.title} is called *{self.suffix}")
        if not path.absolute().parent.is_dir():
            raise BadValue(f"cannot write {path}: there is no folder {path.parent}")
        return path


def agreed(difference: float, model: Exportable, title: str) -> float:
    """The difference, if it is small enough to publish the file."""
    if not difference <= TOLERANCE * model.scale:
        raise BadValue(
            f"the file for {title} differs from the model by {difference:.2g}; expected at most "
            f"{TOLERANCE * model.scale:.2g}: no file was written; please report this with the model's manifest"
        )
    return difference
