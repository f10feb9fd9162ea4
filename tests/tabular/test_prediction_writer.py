import gzip

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")

from pyarrow import parquet

from invariance.core.errors import BadValue
from invariance.tabular.prediction_writer import prediction_writer

P = np.array([[0.25, 0.75], [0.875, 0.125]], np.float32)


def written(path):
    with prediction_writer(path, ["no", "yes"]) as out:
        out.write(P[:1])
        out.write(P[1:])
        assert not path.exists()
    assert out.rows == 2


@pytest.mark.parametrize(("name", "mark"), [("p.csv", ","), ("p.tsv", "\t"), ("p.csv.gz", ",")])
def test_predictions_are_a_table_with_a_row_for_each_row(tmp_path, name, mark):
    written(path := tmp_path / name)
    data = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    lines = [line.replace('"', "").split(mark) for line in data.decode().splitlines()]
    assert lines == [
        ["prediction", "probability_no", "probability_yes"],
        ["yes", "0.25", "0.75"],
        ["no", "0.875", "0.125"],
    ]


def test_parquet_holds_the_same(tmp_path):
    written(tmp_path / "p.parquet")
    assert parquet.read_table(tmp_path / "p.parquet").to_pydict() == {
        "prediction": ["yes", "no"],
        "probability_no": [0.25, 0.875],
        "probability_yes": [0.75, 0.125],
    }


def test_what_was_not_finished_is_not_there(tmp_path):
    def fails():
        with prediction_writer(tmp_path / "p.csv", ["no", "yes"]) as out:
            out.write(P)
            raise RuntimeError

    (tmp_path / "p.csv").write_text("before")
    with pytest.raises(RuntimeError):
        fails()
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]
    assert (tmp_path / "p.csv").read_text() == "before"


@pytest.mark.parametrize("name", ["p.xlsx", "none/p.csv", "."])
def test_a_file_that_cannot_be_written_is_refused_first(tmp_path, name):
    with pytest.raises(BadValue, match="cannot write"), prediction_writer(tmp_path / name, ["a", "b"]):
        pass
