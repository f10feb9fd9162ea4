"""Readers turn files into samples; they are plain data that is saved with a model."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from invariance.core.inputs import Pixels
from invariance.core.rows import Rows
from invariance.estimators.classifier import InvariantClassifier

Samples = NDArray[np.float32] | Pixels
TABLE_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".parquet", ".pq", ".gz", ".xls", ".xlsx")
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp")
"""Of files that are given to a model of the other kind by mistake."""


class SampleBatch(NamedTuple):
    """Some samples in their order, and their names, if they have names."""

    x: Samples
    names: Sequence[str] | None = None


class Reader(ABC):
    """Reads files of one kind in batches. Notes for the user are added to ``notes`` at the end."""

    kind: ClassVar[str]
    """Its name in a manifest."""
    unit: ClassVar[str]
    """What samples are called, in the plural."""
    name_column: ClassVar[str | None] = None
    """The column of predictions that holds the names of samples, if they have names."""

    @abstractmethod
    def batches(self, path: Path, notes: list[str]) -> Iterator[SampleBatch]:
        """All samples, for prediction."""

    @abstractmethod
    def labelled(self, path: Path, environment: str | None, notes: list[str]) -> Iterator[Rows]:
        """All samples with a label; ``environment`` names the column of environments, if not that of training."""

    @abstractmethod
    def fits(self, estimator: InvariantClassifier) -> bool:
        """Whether the estimator takes the samples of this reader."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """As plain data."""


@dataclass(frozen=True, eq=False)
class FitTask:
    """Training data, test data if there are some, and the estimator to fit.

    ``columns`` are the columns of a table with their slices of the inputs, ``roles`` the name, role and reason of every
    column; images have neither. ``about`` is for the model card.
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
        """The name of the file or folder."""
        return self.path.absolute().name

    @property
    def environments(self) -> int:
        """The number of environments."""
        return len(self.rows.names)
