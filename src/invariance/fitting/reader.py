"""What turns somebody's files into samples; plain data that lie beside a model."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from invariance.core.inputs import Pixels
from invariance.estimators.classifier import InvariantClassifier
from invariance.estimators.rows import Rows

Samples = NDArray[np.float32] | Pixels
TABLES = (".csv", ".tsv", ".tab", ".txt", ".parquet", ".pq", ".gz", ".xls", ".xlsx")
IMAGES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp")
"""How the names of files end that are given to a model of the other kind by mistake."""


class Piece(NamedTuple):
    """Some samples in their order, and what they are called, where they have names."""

    x: Samples
    names: Sequence[str] | None = None


class Labelled(NamedTuple):
    """Some samples with their ``labels`` [n], and the number ``site`` [n] of each one's environment in ``sites``."""

    x: Samples
    labels: NDArray[Any]
    sites: Sequence[str]
    site: NDArray[np.int64]


class Reader(ABC):
    """Reads files of one kind, some samples at a time. What is noticed on the way is added to ``notes`` at the end."""

    kind: ClassVar[str]
    """Under this name it lies beside the estimator."""
    unit: ClassVar[str]
    """What samples are called."""
    name: ClassVar[str | None] = None
    """What the names of samples are, where they have some."""

    @abstractmethod
    def pieces(self, path: Path, notes: list[str]) -> Iterator[Piece]:
        """All samples, for prediction."""

    @abstractmethod
    def labelled(self, path: Path, environment: str | None, notes: list[str]) -> Iterator[Labelled]:
        """All samples with a label; ``environment`` says where the environments stand, if not where they did."""

    @abstractmethod
    def fits(self, estimator: InvariantClassifier) -> bool:
        """Whether the estimator takes what this reads."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """As plain data."""


@dataclass(frozen=True, eq=False)
class Given:
    """Data to learn from, the estimator to do it with, and what to say about them.

    ``columns`` are what the estimator sees, by name and place, ``roles`` what all columns are for and why; images have
    neither.
    """

    path: Path
    reader: Reader
    rows: Rows
    test: Rows | None
    estimator: InvariantClassifier
    label: str
    environment: str | None
    about: dict[str, str]
    notes: tuple[str, ...] = ()
    columns: tuple[tuple[str, slice], ...] = ()
    roles: tuple[tuple[str, str, str], ...] = ()

    @property
    def title(self) -> str:
        """What the file or folder is called."""
        return self.path.absolute().name

    @property
    def environments(self) -> int:
        """How many there are."""
        return len(set(self.rows.environments.tolist()))
