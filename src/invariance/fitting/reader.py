"""Readers turn files into samples; they are plain data that is saved with a model."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from invariance.core.inputs import Pixels
from invariance.core.rows import Rows
from invariance.estimators.base import Invariant
from invariance.models.base import Architecture

Samples = NDArray[np.float32] | Pixels
TABLE_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".parquet", ".pq", ".gz", ".xls", ".xlsx")
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp")
"""Of files that are given to a model of the other kind by mistake."""


class SampleBatch(NamedTuple):
    """Some samples in their order, and the columns that are copied beside their predictions."""

    x: Samples
    kept: Mapping[str, pa.Array]


class Reader(ABC):
    """Reads files of one kind in batches. Notes for the user are added to ``notes`` at the end."""

    kind: ClassVar[str]
    """Its name in a manifest."""
    unit: ClassVar[str]
    """What samples are called, in the plural."""

    @property
    def columns(self) -> tuple[tuple[str, slice], ...]:
        """The columns of a table that are used, with their slices of the inputs; images have none."""
        return ()

    def leaving_out(self, inputs: Iterable[int]) -> "Reader":
        """The reader for a model that leaves out some inputs."""
        return self

    @abstractmethod
    def kept(self, path: Path, columns: Sequence[str] | None) -> dict[str, pa.DataType]:
        """The columns to copy beside predictions, with their types: these, or all that there are (None)."""

    @abstractmethod
    def size(self, path: Path) -> int | None:
        """About how many samples there are, if that can be told without reading them."""

    @abstractmethod
    def batches(self, path: Path, notes: list[str], kept: Sequence[str] = ()) -> Iterator[SampleBatch]:
        """All samples, for prediction, with the columns to copy."""

    @abstractmethod
    def labelled(self, path: Path, environment: str | None, notes: list[str]) -> Iterator[Rows]:
        """All samples with a label; ``environment`` names the column of environments, if not that of training."""

    @abstractmethod
    def fits(self, estimator: Invariant) -> bool:
        """Whether the estimator takes the samples of this reader."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """As plain data."""


@dataclass(frozen=True, eq=False)
class FitTask:
    """Training data, test data if there are some, and the estimator to fit.

    ``roles`` are the name, role and reason of every column; images have none. ``about`` is for the model card. Where
    ``network`` is given, rows are features that it computed of images, and are not trained.
    """

    path: Path
    reader: Reader
    rows: Rows
    test: Rows | None
    estimator: Invariant
    label: str
    environment: str | None
    about: dict[str, str]
    notes: tuple[str, ...] = ()
    roles: tuple[tuple[str, str, str], ...] = ()
    network: Architecture | None = None

    @property
    def title(self) -> str:
        """The name of the file or folder."""
        return self.path.absolute().name

    @property
    def environments(self) -> int:
        """The number of environments."""
        return len(self.rows.names)
