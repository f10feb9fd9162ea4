"""Tables: rows as numbers, by the encoder that was learned from the training table."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import pyarrow as pa

from invariance.core.errors import DataError
from invariance.core.rows import Rows
from invariance.estimators.base import Invariant
from invariance.estimators.classifier import InvariantClassifier
from invariance.estimators.regressor import InvariantRegressor
from invariance.fitting.labels import few_rows, seen, test_rows
from invariance.fitting.reader import IMAGE_SUFFIXES, FitTask, Reader, SampleBatch
from invariance.fitting.stored_table import default_memory, fits_memory, stored_rows
from invariance.tabular.encoder import Encoder
from invariance.tabular.labelled_rows import LabelledBatches, infer_schema, read
from invariance.tabular.roles import Kind
from invariance.tabular.source import TableSource, short

SINGLE_ENVIRONMENT = "no column names the environment of each row, so the model is ERM; name one with --environment"


@final
@dataclass(frozen=True)
class TableReader(Reader):
    """Rows of a table as numbers."""

    encoder: Encoder

    kind: ClassVar[str] = "table"
    unit: ClassVar[str] = "rows"

    @classmethod
    def from_json(cls, plain: object) -> "TableReader":
        """What :meth:`to_json` gave."""
        return cls(Encoder.from_json(plain))

    def to_json(self) -> dict[str, Any]:
        return self.encoder.to_json()

    def fits(self, estimator: Invariant) -> bool:
        return estimator.input_shape_ == (len(self.encoder.features),)

    @property
    def columns(self) -> tuple[tuple[str, slice], ...]:
        places = self.encoder.places
        return tuple((column.name, place) for column, place in places if column.name not in self.encoder.unused)

    def leaving_out(self, inputs: Iterable[int]) -> "TableReader":
        return TableReader(self.encoder.leaving_out(inputs))

    def kept(self, path: Path, columns: Sequence[str] | None) -> dict[str, pa.DataType]:
        source = open_table(path)
        return {
            name: source.types[name] for name in (source.columns if columns is None else map(source.require, columns))
        }

    def size(self, path: Path) -> int | None:
        return open_table(path).estimated_rows()

    def batches(self, path: Path, notes: list[str], kept: Sequence[str] = ()) -> Iterator[SampleBatch]:
        unusable: Counter[str] = Counter()
        source = open_table(path)
        for batch in source.batches(list(dict.fromkeys([*self.encoder.to_read(source), *kept]))):
            yield SampleBatch(self.encoder.encode(batch, unusable), {name: batch[name] for name in kept})
        notes += self.encoder.notes(unusable)

    def labelled(self, path: Path, environment: str | None, notes: list[str]) -> Iterator[Rows]:
        batches = LabelledBatches(open_table(path), self.encoder, environment)
        yield from batches
        notes += batches.notes


def open_table(path: Path) -> TableSource:
    """The table in a file; a folder or an image is refused."""
    if path.is_dir() or path.suffix.lower() in IMAGE_SUFFIXES:
        raise DataError(
            f"{path} is not a table, and the model was fitted to one: give a file that ends in .csv, .tsv or .parquet, "
            "or a model that was fitted to a folder of images"
        )
    return TableSource.open(path)


def table_task(
    source: TableSource,
    label: str | None,
    environment: str | None,
    stated: Mapping[str, Kind],
    *,
    test: Path | None,
    seed: int,
    memory: int | None = None,
) -> FitTask:
    """A training table and perhaps a test table, read before anything is trained, so that a mistake shows at once.

    Rows that take more than ``memory`` bytes (None: half of the machine's) stay in a file.
    """
    schema = infer_schema(source, label, environment, stated)
    encoder = schema.encoder
    fits = fits_memory(schema, default_memory() if memory is None else memory)
    rows = read(source, encoder) if fits else stored_rows(schema)
    tested = read(open_table(test), encoder) if test else None
    if tested and test and not encoder.numeric_label:
        tested = test_rows(tested, np.unique(rows.y) if rows.classes is None else rows.classes, test)
    of_test = (*tested.notes, *seen(rows, tested)) if tested else ()
    notes = (*rows.notes, *few_rows(rows), *of_test)
    about = {"table": source.path.name, "label": encoder.label, "environment": encoder.environment}
    return FitTask(
        source.path,
        TableReader(encoder),
        rows,
        tested,
        InvariantRegressor(random_state=seed) if encoder.numeric_label else InvariantClassifier(random_state=seed),
        encoder.label,
        encoder.environment,
        {name: short(value) for name, value in about.items() if value},
        notes if encoder.environment else (*notes, SINGLE_ENVIRONMENT),
        tuple((role.name, role.kind, role.why) for role in schema.roles),
    )
