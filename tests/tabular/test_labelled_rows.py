import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")

import pyarrow as pa
from pyarrow import parquet

from invariance.core.errors import DataError
from invariance.core.rows import Rows
from invariance.tabular import source as sources
from invariance.tabular.labelled_rows import imbalance, infer_schema, read
from invariance.tabular.source import TableSource


def rows_of(path, label="sick", environment="hospital") -> Rows:
    known = infer_schema(TableSource.open(path), label, environment)
    return read(known.source, known.encoder)


def test_rows_keep_their_order_label_and_environment(table, patients, monkeypatch):
    rows = patients(200)
    whole = rows_of(table(rows))
    assert whole.y.tolist() == [row[4] for row in rows[1:]]
    assert whole.environments.tolist() == [row[5] for row in rows[1:]]
    assert whole.x[:, 0] == pytest.approx([float(row[0]) for row in rows[1:]])
    monkeypatch.setattr(sources, "BLOCK_BYTES", 1 << 10)
    pieces = rows_of(table(rows))
    assert (whole.x == pieces.x).all()
    assert (whole.environments == pieces.environments).all()


def test_every_kind_of_file_gives_the_same_numbers(table, patients, text, tmp_path):
    rows = patients(50)
    first = rows_of(table(rows))
    columns = {
        name: [row[j] or None if j in (2, 5) else float(row[j]) if row[j] else None for row in rows[1:]]
        for j, name in enumerate(rows[0])
    }
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    for other in (rows_of(tmp_path / "t.parquet"), rows_of(table(text(rows, "\t"), "t.tsv"))):
        assert (other.x == first.x).all()
        assert (other.y == first.y).all()
        assert (other.environments == first.environments).all()


def test_rows_without_label_or_environment_are_left_out_and_counted(table, patients):
    rows = patients(30)
    rows[1][4] = rows[2][5] = "NA"
    labelled = rows_of(table(rows))
    assert len(labelled.y) == 28
    assert "2 rows without 'sick' or 'hospital' were left out" in labelled.notes


def test_environments_have_one_code_each_sorted_by_name_whatever_piece_they_come_in(table, patients, monkeypatch):
    rows = patients(200)
    monkeypatch.setattr(sources, "BLOCK_BYTES", 1 << 10)
    labelled = rows_of(table(rows))
    assert labelled.names.tolist() == sorted({row[5] for row in rows[1:]})
    assert labelled.counts == [sum(row[5] == name for row in rows[1:]) for name in labelled.names]


def test_a_file_is_opened_twice_to_look_and_once_for_every_pass(table, patients, monkeypatch):
    opened = []
    stream = sources._bytes
    monkeypatch.setattr(sources, "_bytes", lambda path: opened.append(path) or stream(path))
    path = table(patients(50))
    source = TableSource.open(path)
    known = infer_schema(source, "sick", "hospital")
    read(source, known.encoder)
    assert len(opened) == 4


def test_a_file_without_environments_is_one(table, patients):
    rows = [row[:5] for row in patients(30)]
    labelled = rows_of(table(rows, "clinic.csv"), environment=None)
    assert set(labelled.environments) == {"clinic"}


def test_thousands_of_environments_are_nothing_special(table):
    rows = [["x", "label", "site"], *([str(i % 17), str(i % 2), f"s{i // 3}"] for i in range(9000))]
    labelled = rows_of(table(rows), "label", "site")
    assert len(np.unique(labelled.environments)) == 3000


def test_another_table_needs_the_columns_of_the_first(table, patients):
    rows = patients(30)
    encoder = infer_schema(TableSource.open(table(rows)), "sick", "hospital").encoder
    other = table([row[1:] for row in rows], "other.csv")
    with pytest.raises(KeyError, match="no column 'age'"):
        read(TableSource.open(other), encoder)
    unlabelled = [[*row[:4], "", row[5]] for row in rows[1:]]
    with pytest.raises(DataError, match="has no row with a value in 'sick' and 'hospital'"):
        read(TableSource.open(table([rows[0], *unlabelled], "new.csv")), encoder)


def test_a_rare_class_is_noticed():
    y = np.array(["no"] * 97 + ["yes"] * 3, dtype=object)
    (note,) = imbalance(*np.unique(y, return_counts=True))
    assert "'yes' makes up 3 %" in note
    assert "always predicting 'no' has an accuracy of 97.0 %" in note
    assert imbalance(np.array(["a", "b"]), np.array([5, 5])) == ()
