"""What fuzzing found, as the smallest input that shows it; each ended in a traceback once."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import invariance
from invariance.core import model_folder
from invariance.core.errors import BadValue, DataError, StoreError
from invariance.experiments.store import Store

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")

import pyarrow as pa
from pyarrow import parquet

from invariance.tabular.source import TableSource


def test_text_of_parquet_that_is_no_utf8(tmp_path):
    buffers = pa.array([b"\xf1\x00", b"ok"], pa.binary()).buffers()
    text = pa.Array.from_buffers(pa.string(), 2, buffers)
    parquet.write_table(pa.table({"x": [1.0, 2.0], "kind": text}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="not UTF-8"):
        list(TableSource.open(tmp_path / "t.parquet").batches())


def test_a_store_whose_schema_is_no_text(tmp_path):
    with Store(tmp_path / "runs.db"):
        pass
    with closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = (tmp_path / "runs.db").read_bytes()
    assert b"CREATE TABLE records" in content
    (tmp_path / "runs.db").write_bytes(content.replace(b"CREATE TABLE records", b"CREATE TABLE rec\xf1rds"))
    with pytest.raises(StoreError, match="no store of runs"):
        Store(tmp_path / "runs.db", must_exist=True)


@pytest.mark.parametrize("hidden", [["x"], [0], [1.5], "wide"])
def test_a_manifest_whose_layers_have_no_sizes(tmp_path, hidden):
    x, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2
    invariance.save(invariance.InvariantClassifier("erm").fit(x, y, environments=np.arange(12) % 3), tmp_path)
    content = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    content["network"]["hidden"] = hidden
    del content["seal"]
    (tmp_path / "manifest.json").write_text(json.dumps(content | {"seal": model_folder.seal(content)}))
    with pytest.raises(DataError, match="no readable model"):
        invariance.load(tmp_path)


@pytest.mark.parametrize("value", ["\ud800", "\u202e", "\x00", "a\nb\x1b[2J", "x" * 9000])
def test_a_message_is_one_short_line_whatever_it_names(value):
    said = str(BadValue(f"schedule = {value!s}; choose another"))
    assert said.isprintable()
    assert len(said) < 1600
    assert said.startswith("schedule = ")
    assert said.endswith("choose another")


def test_a_path_in_a_message_is_shown_whole():
    path = Path("/data/a b/c.csv")
    assert str(path) in str(DataError(f"{path} cannot be read"))
