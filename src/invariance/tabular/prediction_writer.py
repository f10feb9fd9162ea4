"""Predictions written to a table batch by batch; the file appears whole or not at all."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv, parquet

from invariance.core.atomic import atomic_write
from invariance.core.errors import BadValue
from invariance.core.text import spreadsheet_text

SUFFIXES = (".csv", ".tsv", ".parquet", ".csv.gz", ".tsv.gz")


class PredictionWriter:
    """Writes predictions to an open file, and counts its ``rows``."""

    def __init__(self, writer: Any, schema: pa.Schema, classes: Sequence[str], cell: Callable[[str], str]) -> None:
        self.writer, self.schema, self.cell = writer, schema, cell
        self.classes = pa.array(map(cell, classes), pa.string())
        self.rows = 0

    def write(self, probabilities: NDArray[np.floating[Any]], names: Sequence[str] | None = None) -> None:
        """Write the predicted class and the ``probabilities`` [n, classes] of some rows, and their names."""
        predicted = pa.array(probabilities.argmax(1))
        first = [] if names is None else [pa.array(map(self.cell, names), pa.string())]
        columns = [*first, self.classes.take(predicted), *(pa.array(np.ascontiguousarray(p)) for p in probabilities.T)]
        self.writer.write_batch(pa.record_batch(columns, schema=self.schema))
        self.rows += len(predicted)


@contextmanager
def prediction_writer(path: Path, classes: Sequence[str], name: str | None = None) -> Iterator[PredictionWriter]:
    """Columns ``prediction`` and ``probability_<class>``, in a file that appears when all is written.

    A column called ``name`` precedes them where rows have names. In text, which spreadsheets open, a name that is a
    formula gets an apostrophe in front; Parquet holds names as they are.
    """
    check_writable(path)
    fields = [pa.field(column, pa.string()) for column in (name, "prediction") if column]
    fields += [pa.field(f"probability_{name}", pa.float32()) for name in classes]
    schema = pa.schema(fields)
    cell = str if path.name.lower().endswith(".parquet") else spreadsheet_text
    with atomic_write(path) as part, ExitStack() as stack:
        yield PredictionWriter(_writer(stack, part, path, schema), schema, classes, cell)


def check_writable(path: Path) -> None:
    """Refuse a file that could not be written, before anything is computed."""
    if not path.parent.is_dir():
        raise BadValue(f"cannot write {path}: there is no folder {path.parent}")
    if path.is_dir():
        raise BadValue(f"cannot write {path}: it is a folder; give a file, e.g. -o {path / 'predictions.csv'}")
    if not path.name.lower().endswith(SUFFIXES):
        raise BadValue(f"cannot write {path}: its name must end in {', '.join(SUFFIXES)}")


def _writer(stack: ExitStack, part: Path, path: Path, schema: pa.Schema) -> Any:
    name = path.name.lower()
    if name.endswith(".parquet"):
        return stack.enter_context(parquet.ParquetWriter(part, schema))
    stream = stack.enter_context(pa.output_stream(str(part), compression="gzip" if name.endswith(".gz") else None))
    options = csv.WriteOptions(delimiter="\t" if ".tsv" in name else ",")
    return stack.enter_context(csv.CSVWriter(stream, schema, write_options=options))
