"""A table on disk: CSV, TSV or Parquet, plain or gzipped, read in batches that fit into memory."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from invariance.core.errors import DataError, UnknownName
from invariance.tabular.cells import is_text

DELIMITERS = {".csv": ",;\t|", ".tsv": "\t", ".txt": "\t,;|"}
"""Possible delimiters by the suffix of a file; the first wins a tie."""
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "#N/A", "?")
"""Cells that stand for a missing value."""
BLOCK_BYTES = 16 << 20
"""Bytes of text that are read at once; no row may be longer."""
BATCH_ROWS = 65536
"""Rows of Parquet that are read at once."""
PARQUET_BUFFER = 64 << 20
"""Bytes of Parquet that are read ahead, of all columns together; without it a whole row group would be."""
COLUMN_BUFFERS = 1 << 16, 1 << 20
"""The least and the most of these for each column."""
BATCH_BYTES = 64 << 20
"""Bytes of Parquet that are read at once, by the file's own account."""
MAX_CELL_BYTES = 1 << 20
"""A longer cell is no name."""
MAX_COLUMNS = 20_000
"""A file with more columns is refused: it is probably not a table."""
SNIFFED_BYTES = 1 << 16
"""Bytes in which the delimiter is looked for."""


class Source(ABC):
    """A table with named columns whose rows are read in batches; ``path`` is how messages call it."""

    path: Path
    columns: tuple[str, ...]

    @abstractmethod
    def batches(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, pa.Array]]:
        """The rows in their order, in batches: the named columns (all, if none are named) as arrays."""

    def require(self, column: str) -> str:
        """The column, or an error that lists the columns of the table."""
        if column in self.columns:
            return column
        close = get_close_matches(column.lower(), [name.lower() for name in self.columns], n=1, cutoff=0.6)
        hint = [f" Did you mean {short(name)}?" for name in self.columns if [name.lower()] == close]
        listed = ", ".join(short(name, quoted=False) for name in self.columns[:20])
        more = f" and {len(self.columns) - 20} more" if len(self.columns) > 20 else ""
        raise UnknownName(
            f"no column {short(column)} in {self.path}; its columns are {listed}{more}.{''.join(hint[:1])}"
        )


@dataclass(frozen=True)
class TableSource(Source):
    """A file, the names of its columns, and its header as it is written.

    ``delimiter`` is empty for Parquet, whose columns have ``kinds``; cells of other files are text.

    The file is opened anew for every pass over :meth:`batches`. Arrow reads it ahead in a thread of its own, so streams
    are Arrow's: one of Python's would need the interpreter while that may be ending.
    """

    path: Path
    columns: tuple[str, ...]
    header: tuple[str, ...]
    delimiter: str = ""
    kinds: tuple[pa.DataType, ...] = ()

    @classmethod
    def open(cls, path: Path) -> "TableSource":
        """Read the header of a file."""
        kind, kinds = _kind(path), ()
        with _reading(path):
            if kind == ".parquet":
                schema = parquet.read_schema(path)
                header, delimiter, kinds = tuple(schema.names), "", tuple(schema.types)
            else:
                with _bytes(path) as stream:
                    head = stream.read(SNIFFED_BYTES)
                delimiter = _delimiter(path, kind, head)
                with _text(_bytes(path), delimiter) as reader:
                    header = tuple(reader.schema.names)
                if len(header) == 1 and head.removeprefix(b"\xef\xbb\xbf").startswith((b"\n", b"\r")):
                    raise DataError(f"{path} has one column and begins with an empty line; remove the line")
        if not 0 < len(header) <= MAX_COLUMNS:
            raise DataError(f"{path} has {len(header):,} columns; expected from 1 to {MAX_COLUMNS:,}")
        names = [name.strip() or f"column {i}" for i, name in enumerate(header, 1)]
        if twice := [name for i, name in enumerate(names) if name in names[:i]]:
            raise DataError(f"{path} has two columns called {short(twice[0])}; give one of them another name")
        return cls(path, tuple(names), header, delimiter, kinds)

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The type of each column."""
        return dict(zip(self.columns, self.kinds or [pa.string()] * len(self.columns), strict=True))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, pa.Array]]:
        wanted = self.columns if columns is None else tuple(map(self.require, columns))
        places = [self.columns.index(name) for name in wanted]
        with _reading(self.path):
            for batch in self._text_batches() if self.delimiter else self._parquet_batches():
                yield {name: batch.column(place) for name, place in zip(wanted, places, strict=True)}

    def estimated_rows(self) -> int | None:
        """The number of rows of Parquet; of plain text, by the length of the first rows; None if it is compressed."""
        with _reading(self.path):
            if not self.delimiter:
                return int(parquet.read_metadata(self.path).num_rows)
            if self.path.suffix.lower() == ".gz":
                return None
            with self.path.open("rb") as file:
                lines = file.read(SNIFFED_BYTES).splitlines(keepends=True)
            length = sum(map(len, lines[1:-1])) / max(1, len(lines) - 2)
            return round(self.path.stat().st_size / length) if length else None

    def _text_batches(self) -> Iterator[pa.RecordBatch]:
        last = None
        types = dict.fromkeys(self.header, pa.string())
        with _text(_bytes(self.path), self.delimiter, types, empty_rows=len(self.header) == 1) as reader:
            for batch in reader:
                last = batch.slice(batch.num_rows - 1) if batch.num_rows else last
                yield _decimal_points(batch) if self.delimiter == ";" else batch
        end = last.column(last.num_columns - 1)[0].as_py() if last is not None else ""
        if end and "\n" in end and (end.endswith("\n") or self.delimiter in end):
            raise DataError(f"{self.path} opens a quote that it never closes, in {short(end)}; close it")

    def _parquet_batches(self) -> Iterator[pa.RecordBatch]:
        least, most = COLUMN_BUFFERS
        buffer = min(most, max(least, PARQUET_BUFFER // len(self.columns)))
        with parquet.ParquetFile(self.path, buffer_size=buffer, pre_buffer=False) as file:
            bytes_per_row = max((_row_bytes(self.path, file, i) for i in range(file.num_row_groups)), default=1)
            for batch in file.iter_batches(max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, bytes_per_row)))):
                batch.validate(full=True)  # text that is no UTF-8, offsets beyond the end
                _check_cells(self.path, batch)
                yield batch


def _row_bytes(path: Path, file: parquet.ParquetFile, group: int) -> int:
    """Bytes of a row of a row group, by the file's footer; a column whose cells are too long is refused unread."""
    about = file.metadata.row_group(group)
    for i in range(about.num_columns):
        column = about.column(i)
        if column.total_uncompressed_size > max(BATCH_BYTES, MAX_CELL_BYTES * column.num_values // 16):
            raise _too_long(path, column.path_in_schema)
    return -(-about.total_byte_size // max(1, about.num_rows))


def _check_cells(path: Path, batch: pa.RecordBatch) -> None:
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        cells = column.dictionary if pa.types.is_dictionary(column.type) else column
        if is_text(cells.type) and cells.nbytes > MAX_CELL_BYTES:
            texts = pc.cast(cells, pa.string()) if pa.types.is_string_view(cells.type) else cells
            if pc.max(pc.binary_length(texts)).as_py() > MAX_CELL_BYTES:
                raise _too_long(path, name)


def _too_long(path: Path, column: str) -> DataError:
    return DataError(
        f"{path} has cells of more than {MAX_CELL_BYTES:,} bytes in {short(column)}; expected numbers or names"
    )


def short(text: object, max_length: int = 40, *, quoted: bool = True) -> str:
    """Text from a file as messages show it: one line, at most ``max_length`` characters."""
    words = str(text)
    words = repr(words if len(words) <= max_length else f"{words[: max_length - 1]}…")
    return words if quoted else words[1:-1]


def _kind(path: Path) -> str:
    """The format of a file, by its suffix."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; give a file that ends in .csv, .tsv or .parquet")
    if not path.is_file():
        raise DataError(f"there is no file {path}; check its name")
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    kind = {".pq": ".parquet", ".tab": ".tsv"}.get(plain.suffix.lower(), plain.suffix.lower())
    if kind == ".parquet" and plain != path:
        raise DataError(f"{path} cannot be read in batches; unpack it first: gunzip {path}")
    if kind != ".parquet" and kind not in DELIMITERS:
        raise DataError(f"{path} does not end in .csv, .tsv, .parquet or their .gz; save the table as one of them")
    return kind


def _delimiter(path: Path, kind: str, head: bytes) -> str:
    """The most frequent separator in the first line."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path} is UTF-16 text; save it as UTF-8")
    if head.startswith(b"PK\x03\x04"):
        raise DataError(f"{path} is a spreadsheet or an archive; export the table as CSV")
    line = head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").splitlines()[:1]
    outside = b"".join(line[0].split(b'"')[::2]) if line else b""
    return max(DELIMITERS[kind], key=lambda mark: outside.count(mark.encode()))


def _decimal_points(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Where semicolons separate cells, a comma is a decimal point."""
    columns = [pc.replace_substring_regex(c, r"^(\s*[+-]?\d+),(\d+\s*)$", r"\1.\2") for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _bytes(path: Path) -> Any:
    return pa.input_stream(str(path), compression="gzip" if path.suffix.lower() == ".gz" else None)


def _text(
    stream: Any, delimiter: str, types: dict[str, pa.DataType] | None = None, *, empty_rows: bool = False
) -> csv.CSVStreamingReader:
    """Rows of text, with the given types of columns or with inferred ones; an empty line may be a row of one column."""
    return csv.open_csv(
        stream,
        read_options=csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
        parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=not empty_rows),
        convert_options=csv.ConvertOptions(column_types=types, null_values=list(MISSING), strings_can_be_null=True),
    )


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn any error of the reader into one line."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} cannot be read: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, UnicodeError) or "UTF8" in text:
        return "it is not UTF-8 text; save it as UTF-8"
    if "Empty CSV file" in text:
        return "it is empty"
    if "straddling" in text:
        return f"a row is longer than {BLOCK_BYTES >> 20} MB, perhaps because a quote is never closed"
    if ragged := re.search(r"Expected (\d+) columns, got (\d+): ?(.*)", text):
        wanted, got, row = ragged.groups()
        return f"a row has {got} cells and the header {wanted}; correct the row {short(row, 80)}"
    return short(text, 160, quoted=False)
