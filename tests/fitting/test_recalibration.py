"""Few labelled rows of a site move a model's confidence and base rate there."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from invariance.core.errors import BadValue, DataError
from invariance.core.rows import Rows
from invariance.estimators.classifier import InvariantClassifier
from invariance.estimators.regressor import InvariantRegressor
from invariance.fitting.model import Fitted
from invariance.fitting.recalibration import recalibrate
from invariance.fitting.table import TableReader
from invariance.tabular.columns import NumericColumn
from invariance.tabular.encoder import Encoder

QUICK = {"epochs": 60}


def table(path: Path, rows: int, classes: int, shift: float, seed: int) -> Path:
    """A score, and a class that is more frequent where ``shift`` is higher."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    cuts = np.linspace(-1, 1, classes + 1)[1:-1]
    label = np.digitize(x + shift + 0.5 * rng.normal(size=rows), cuts)
    pd.DataFrame({"x": x, "label": [f"c{code}" for code in label]}).to_csv(path, index=False)
    return path


def fitted(path: Path) -> Fitted:
    frame = pd.read_csv(path)
    reader = TableReader(Encoder("label", None, (NumericColumn("x", 0.0, marked=False),)))
    rows = Rows.of(frame[["x"]].to_numpy(np.float32), frame["label"].to_numpy(object), np.arange(len(frame)) % 2)
    return Fitted(reader, InvariantClassifier("erm", recipe=QUICK, hidden=()).fit_rows(rows))


def answers(model: Fitted, path: Path) -> np.ndarray:
    return np.concatenate([batch.answers for batch in model.predict(path, [])])


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_move_to_those_of_the_site_and_their_order_stays(tmp_path, classes):
    model = fitted(table(tmp_path / "train.csv", 600, classes, 0.0, 0))
    few = table(tmp_path / "few.csv", 100, classes, 1.0, 1)
    new = recalibrate(model, few, [])
    assert new.rows == 100
    assert new.after < new.before - 0.02
    there = table(tmp_path / "there.csv", 800, classes, 1.0, 2)
    y = (pd.read_csv(there)["label"] == f"c{classes - 1}").to_numpy()
    before, after = (answers(one, there)[:, -1] for one in (model, new.fitted))
    assert abs(after.mean() - y.mean()) < 0.5 * abs(before.mean() - y.mean())
    if classes == 2:
        assert (np.argsort(before) == np.argsort(after)).mean() > 0.99


def test_numbers_move_to_those_of_the_site(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 1)).astype(np.float32)
    reader = TableReader(Encoder("y", None, (NumericColumn("x", 0.0, marked=False),), numeric_label=True))
    rows = Rows.of(x, 3 * x[:, 0].astype(np.float64), np.arange(400) % 2)
    model = Fitted(reader, InvariantRegressor("erm", recipe=QUICK, hidden=()).fit_rows(rows))
    pd.DataFrame({"x": x[:60, 0], "y": 3 * x[:60, 0] + 2}).to_csv(tmp_path / "few.csv", index=False)
    new = recalibrate(model, tmp_path / "few.csv", [])
    moved = answers(new.fitted, tmp_path / "few.csv") - answers(model, tmp_path / "few.csv")
    assert moved.mean() == pytest.approx(2, abs=0.1)


def test_a_site_where_it_does_not_help_is_refused(tmp_path):
    path = table(tmp_path / "train.csv", 600, 2, 0.0, 0)
    model = fitted(path)
    once = recalibrate(model, table(tmp_path / "few.csv", 200, 2, 1.0, 1), [])
    with pytest.raises(BadValue, match="does not help"):
        recalibrate(once.fitted, table(tmp_path / "again.csv", 200, 2, 1.0, 1), [])
    with pytest.raises(DataError, match="has 10 labelled rows; give at least 20"):
        recalibrate(model, table(tmp_path / "ten.csv", 10, 2, 0.0, 3), [])


def test_rows_of_one_class_are_refused(tmp_path):
    model = fitted(table(tmp_path / "train.csv", 600, 2, 0.0, 0))
    frame = pd.read_csv(table(tmp_path / "few.csv", 100, 2, 0.0, 1))
    frame[frame["label"] == "c1"].to_csv(tmp_path / "sick.csv", index=False)
    with pytest.raises(DataError, match="are of the class 'c1', which does not say how often it occurs"):
        recalibrate(model, tmp_path / "sick.csv", [])
