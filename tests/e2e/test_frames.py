"""Data frames with missing values, categories, dates and free text, through Python and through the command."""

import csv
import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.pipeline import make_pipeline

import invariance
from invariance.core.errors import BadValue
from invariance.estimators.classifier import InvariantClassifier
from invariance.estimators.regressor import InvariantRegressor
from invariance.estimators.table_encoder import TableEncoder
from invariance.fitting.model import Fitted
from invariance.fitting.table import TableReader

COMPLAINTS = ("fever and cough at night", "no complaints at all today", "pain in the left knee", "came for a check up")
INPUTS = ["age", "admitted", "ward", "note"]


def patients(rows: int = 240) -> pd.DataFrame:
    """A number with holes, a date, a category with holes, free text, a site, a label and an amount."""
    rng = np.random.default_rng(0)
    age = rng.normal(50, 10, rows)
    sick = rng.random(rows) < 1 / (1 + np.exp((50 - age) / 5))
    start = datetime.date(2021, 1, 1)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(rows) < 0.1, np.nan, age.round(2)),
            "admitted": [start + datetime.timedelta(int(day)) for day in rng.integers(0, 900, rows)],
            "ward": rng.choice(["north", "south", None], rows),
            "note": [f"{rng.choice(COMPLAINTS)} {rng.integers(1000)}" for _ in range(rows)],
            "hospital": rng.choice(["Lyon", "Bern", "Graz"], rows),
            "sick": np.where(sick, "yes", "no"),
            "cost": (100 + 5 * age).round(2),
        }
    )


KINDS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pl.from_pandas(frame).to_arrow(),
}


@pytest.fixture(scope="module")
def quick() -> dict[str, int]:
    return {"epochs": 30}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return patients()


@pytest.fixture(scope="module")
def file(frame, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("frames") / "patients.csv"
    frame.to_csv(path, index=False)
    return path


def probabilities(path: Path) -> np.ndarray:
    with path.open() as lines:
        return np.array(
            [[float(row["probability_no"]), float(row["probability_yes"])] for row in csv.DictReader(lines)]
        )


@pytest.fixture(scope="module")
def commanded(file, invariance) -> Path:
    folder = file.parent / "model"
    fit = ("fit", file, "--label", "sick", "--ignore", "cost", "--method", "rex", "--no-report", "-o", folder)
    for arguments in (fit, ("predict", folder, file, "-o", file.parent / "p.csv")):
        done = invariance(*arguments)
        assert done.code == 0, done.err
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_the_command_takes_the_same_table_in_python(frame, file, commanded, kind):
    model = invariance.load(commanded)
    expected = probabilities(file.parent / "p.csv")
    assert (model.predict_proba(KINDS[kind](frame)) == expected).all()
    assert model.predict(frame).tolist() == np.array(["no", "yes"])[expected.argmax(1)].tolist()


def test_a_model_of_python_is_that_of_the_command(frame, file, commanded):
    model = InvariantClassifier("rex").fit(frame[INPUTS], frame["sick"], environments=frame["hospital"])
    assert (model.predict_proba(frame[INPUTS]) == probabilities(file.parent / "p.csv")).all()
    invariance.save(model, folder := file.parent / "python")
    fitted = Fitted.load(folder)
    assert isinstance(fitted.reader, TableReader)
    assert fitted.reader.encoder == Fitted.load(commanded).reader.encoder
    answers = np.concatenate([batch.answers for batch in fitted.predict(file, [])])
    assert (answers == invariance.load(folder).predict_proba(frame[INPUTS])).all()
    assert fitted.score(file, None, []).samples == frame["hospital"].value_counts().to_dict()


def test_probabilities_are_doubles_that_sum_to_one(file, commanded):
    sums = probabilities(file.parent / "p.csv").sum(1)
    assert np.abs(sums - 1).max() < 1e-15


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame_gives_the_same_model(frame, kind, quick):
    other = KINDS[kind](frame[[*INPUTS, "hospital", "cost"]])
    y, site = (frame[name].to_numpy() for name in ("cost", "hospital"))
    first = InvariantRegressor("erm", recipe=quick).fit(frame[INPUTS], y, environments=site)
    inputs = other.select(INPUTS) if hasattr(other, "select") else other[INPUTS]
    again = InvariantRegressor("erm", recipe=quick).fit(inputs, y, environments=site)
    assert (first.predict(frame[INPUTS]) == again.predict(inputs)).all()


def test_the_encoder_in_a_pipeline_gives_the_same_model(frame, quick):
    alone = InvariantClassifier("erm", recipe=quick).fit(frame[INPUTS], frame["sick"])
    both = make_pipeline(TableEncoder(), InvariantClassifier("erm", recipe=quick)).fit(frame[INPUTS], frame["sick"])
    assert (both.predict_proba(frame[INPUTS]) == alone.predict_proba(frame[INPUTS])).all()
    assert both[0].get_feature_names_out().tolist() == list(alone.encoder_.features)


def test_the_encoder_can_be_told_what_a_column_is(frame):
    encoder = TableEncoder(categorical=["age"], ignore=["note"]).fit(frame[INPUTS])
    assert [column.kind for column in encoder.encoder_.columns] == ["categorical", "date", "categorical"]
    assert encoder.set_output(transform="pandas").transform(frame[INPUTS]).shape[0] == len(frame)
    with pytest.raises(KeyError, match="no column 'wards'"):
        TableEncoder(text=["wards"]).fit(frame[INPUTS])


def test_what_is_new_at_prediction_is_said_and_no_error(frame, quick):
    model = InvariantClassifier("erm", recipe=quick).fit(frame[INPUTS], frame["sick"])
    new = frame[INPUTS].head(3).assign(ward=["east", None, "north"], age=[np.nan, 200.0, 5.0], admitted=None)
    with pytest.warns(UserWarning, match="'ward': 1 cell with a category that is not in the training data"):
        assert np.isfinite(model.predict_proba(new)).all()


def test_a_model_of_a_file_names_the_columns_that_it_misses(frame, commanded):
    model = invariance.load(commanded)
    with pytest.raises(KeyError, match="no column 'age' in X"):
        model.predict(frame.drop(columns="age"))
    with pytest.raises(BadValue, match="give a data frame with the training columns"):
        model.predict(np.zeros((3, 4)))


def test_contributions_add_up_to_the_prediction(frame, quick):
    model = InvariantRegressor("erm", recipe=quick).fit(frame[INPUTS], frame["cost"])
    each = model.contributions(frame[INPUTS])
    assert each.shape == (len(frame), 1, len(INPUTS))
    linear = model.linear_
    base = linear.intercept + linear.weight @ linear.centre
    assert each.sum(2)[:, 0] + base == pytest.approx(model.predict(frame[INPUTS]), rel=1e-4)


def test_coefficients_are_in_units_of_the_inputs(quick):
    rng = np.random.default_rng(0)
    X = rng.normal(100, [1, 10], (200, 2))
    y = X @ [3, -0.5] + 7
    model = InvariantRegressor("erm").fit(X, y)
    assert model.coef_ == pytest.approx([3, -0.5], rel=0.05)
    assert X @ model.coef_ + model.intercept_ == pytest.approx(model.predict(X), rel=1e-6)
    deep = InvariantClassifier("erm", hidden=(4,), recipe=quick).fit(X, y > y.mean())
    assert not hasattr(deep, "coef_")
