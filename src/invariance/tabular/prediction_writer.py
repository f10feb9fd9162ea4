"""Predictions written to a table batch by batch; the file appears whole or not at all."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv, parquet

from invariance.core.atomic import atomic_write, check_folder
from invariance.core.errors import BadValue
from invariance.core.text import spreadsheet_text
from invariance.tabular.cells import names
from invariance.tabular.source import short

SUFFIXES = (".csv", ".tsv", ".parquet", ".csv.gz", ".tsv.gz")
PREDICTION = "prediction"


class PredictionWriter:
    """Writes predictions to an open file, and counts its ``rows``."""

    def __init__(self, writer: Any, schema: pa.Schema, classes: Sequence[str], *, as_text: bool) -> None:
        self.writer, self.schema, self.as_text = writer, schema, as_text
        self.classes = self._cells(pa.array(classes, pa.string()))
        self.rows = 0

    def write(
        self,
        answers: NDArray[np.float64],
        kept: Mapping[str, pa.Array] | None = None,
        numbers: NDArray[np.float64] | None = None,
    ) -> None:
        """Write the ``kept`` columns of some rows, the predictions that follow from ``answers``, and other ``numbers``.

        Answers are probabilities [n, classes], or numbers [n, 1] where there are no classes.
        """
        columns = [self._cells(column) for column in (kept or {}).values()]
        columns += [self.classes.take(pa.array(answers.argmax(1)))] if len(self.classes) else []
        each = answers if numbers is None else np.hstack([answers, numbers])
        columns += [pa.array(np.ascontiguousarray(column)) for column in each.T]
        self.writer.write_batch(pa.record_batch(columns, schema=self.schema))
        self.rows += len(answers)

    def _cells(self, column: pa.Array) -> pa.Array:
        """A column as the file holds it: in text, every different cell as a spreadsheet may show it."""
        if not self.as_text:
            return column
        cells = names(column).dictionary_encode()
        return pa.array(map(spreadsheet_text, cells.dictionary.to_pylist()), pa.string()).take(cells.indices)


@contextmanager
def prediction_writer(
    path: Path,
    classes: Sequence[str] = (),
    kept: Mapping[str, pa.DataType] | None = None,
    numbers: Sequence[str] = (),
) -> Iterator[PredictionWriter]:
    """The ``kept`` columns, then ``prediction``, ``probability_<class>`` and other ``numbers``.

    Without ``classes``, the prediction is a number. The file appears when all is written. In text, which spreadsheets
    open, a cell that is a formula gets an apostrophe in front; Parquet holds cells as they are.
    """
    check_writable(path)
    as_text = not path.name.lower().endswith(".parquet")
    fields = [(name, pa.string() if as_text else kind) for name, kind in (kept or {}).items()]
    fields += [(PREDICTION, pa.string() if classes else pa.float64())]
    fields += [(name, pa.float64()) for name in (*(f"probability_{name}" for name in classes), *numbers)]
    written = [name for name, _ in fields]
    if as_text:
        fields = [(spreadsheet_text(name), kind) for name, kind in fields]
    if twice := [name for i, name in enumerate(written) if name in written[:i]]:
        raise BadValue(f"the column {short(twice[0])} is written by predict itself; rename the one to keep")
    with atomic_write(path) as part, ExitStack() as stack:
        schema = pa.schema(fields)
        yield PredictionWriter(_writer(stack, part, path, schema), schema, classes, as_text=as_text)


def check_writable(path: Path) -> None:
    """Refuse a file that could not be written, before anything is computed."""
    check_folder(path)
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
