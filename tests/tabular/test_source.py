import gzip

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")

import pyarrow as pa
from pyarrow import parquet

from invariance.core.errors import DataError, UnknownName
from invariance.tabular import source as sources
from invariance.tabular.source import TableSource, short


def cells(path) -> dict[str, list[object]]:
    """All of a file, column by column."""
    source = TableSource.open(path)
    columns: dict[str, list[object]] = {name: [] for name in source.columns}
    for batch in source.batches():
        for name, column in batch.items():
            columns[name] += column.to_pylist()
    return columns


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.txt"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_text_is_read_as_it_was_written(table, patients, text, name, delimiter):
    if ".tsv" in name and delimiter != "\t":
        return
    rows = patients(30)
    data = text(rows, delimiter).encode()
    columns = cells(table(gzip.compress(data) if name.endswith(".gz") else data, name))
    assert list(columns) == rows[0]
    for j, column in enumerate(columns.values()):
        assert column == [row[j] or None for row in rows[1:]]


def test_parquet_keeps_its_types(tmp_path):
    parquet.write_table(pa.table({"a": [1, None], "b": ["x", "y"]}), tmp_path / "t.parquet")
    assert cells(tmp_path / "t.parquet") == {"a": [1, None], "b": ["x", "y"]}


def test_rows_come_in_pieces_and_in_order(table, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK_BYTES", 1 << 12)
    path = table("n\n" + "".join(f"{i}\n" for i in range(5000)))
    pieces = [batch["n"].to_pylist() for batch in TableSource.open(path).batches()]
    assert len(pieces) > 3
    assert [int(n) for piece in pieces for n in piece] == list(range(5000))


def test_a_comma_is_a_decimal_point_where_semicolons_separate_cells(table):
    assert cells(table("a;b\n1,5;x\n-2,25;1,2,3\n")) == {"a": ["1.5", "-2.25"], "b": ["x", "1,2,3"]}
    assert cells(table('a,b\n"1,500",x\n')) == {"a": ["1,500"], "b": ["x"]}


def test_a_cell_may_hold_a_newline(table):
    assert cells(table('a,b\n1,"two\nlines"\n2,x\n')) == {"a": ["1", "2"], "b": ["two\nlines", "x"]}


def test_an_unnamed_column_has_its_place_for_a_name(table):
    assert list(cells(table(",a\n0,1\n"))) == ["column 1", "a"]


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"", "t.csv", "it is empty"),
        (b"a,b\n1,2\n3\n", "t.csv", "a row has 1 cells and the header 2; correct the row '3'"),
        (b"a,a\n1,2\n", "t.csv", "two columns called 'a'"),
        ("a,b\n1,é\n".encode("latin-1"), "t.csv", "not UTF-8 text; save it as UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "t.csv", "is UTF-16 text"),
        (b'a,b\n1,"2\n3,4\n', "t.csv", "opens a quote that it never closes"),
        (b"PK\x03\x04rest", "t.csv", "spreadsheet or an archive"),
        (b"abc", "t.xlsx", "does not end in .csv"),
        (b"abc", "t.parquet.gz", "unpack it first"),
        (b"PAR1", "t.parquet", "cannot be read"),
        pytest.param(gzip.compress(b"a,b\n" + b"1,2\n" * 9000)[:-9], "t.csv.gz", "cannot be read", id="cut short"),
    ],
)
def test_a_file_that_cannot_be_read_says_why_in_one_line(table, content, name, message):
    with pytest.raises(DataError) as caught:
        cells(table(content, name))
    assert message in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_folder_and_a_file_that_is_not_there_are_told_apart(tmp_path):
    with pytest.raises(DataError, match="is a folder"):
        TableSource.open(tmp_path)
    with pytest.raises(DataError, match="there is no file"):
        TableSource.open(tmp_path / "none.csv")


def test_a_column_that_is_not_there_is_answered_with_those_that_are(table):
    source = TableSource.open(table("age,sex,hospital\n1,m,Lyon\n"))
    with pytest.raises(UnknownName, match=r"no column 'site' in .*its columns are age, sex, hospital\.$"):
        source.require("site")
    with pytest.raises(UnknownName, match="Did you mean 'hospital'"):
        source.require("Hospitl")


@pytest.mark.parametrize("text", ["a\nb", "\x1b[31m", "x" * 500, "\u202eabc", "\x00"])
def test_what_stands_in_a_file_is_short_and_printable_in_a_message(text):
    assert short(text).isprintable()
    assert len(short(text)) <= 45
