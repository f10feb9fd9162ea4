import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse

from invariance.core.errors import BadValue
from invariance.estimators.classifier import InvariantClassifier
from invariance.estimators.inputs import checked_weights, environment_codes
from invariance.estimators.regressor import InvariantRegressor

COLUMNS = list("abcdef")
KINDS = {
    "pandas": lambda t: (pd.DataFrame(t.X, columns=COLUMNS), pd.Series(t.y), pd.Series(t.site)),
    "polars": lambda t: (pl.DataFrame(t.X, schema=COLUMNS), pl.Series(t.y), pl.Series(t.site)),
    "lists": lambda t: (t.X.tolist(), t.y.tolist(), t.site.tolist()),
    "categories": lambda t: (pd.DataFrame(t.X), pd.Series(t.y, dtype="category"), pd.Categorical(t.site)),
    "columns first": lambda t: (np.asfortranarray(t.X), t.y, t.site),
}


@pytest.fixture(scope="module")
def expected(small, quick):
    model = InvariantClassifier("rex", recipe=quick).fit(small.X, small.y, environments=small.site)
    return model.predict_proba(small.X)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_bits(small, quick, expected, kind):
    X, y, site = KINDS[kind](small)
    model = InvariantClassifier("rex", recipe=quick).fit(X, y, environments=site)
    assert model.classes_.tolist() == ["sick", "well"]
    assert model.environments_.tolist() == ["Bern", "Graz", "Lyon"]
    assert (model.predict_proba(X) == expected).all()
    if hasattr(X, "columns") and kind != "categories":
        assert model.feature_names_in_.tolist() == COLUMNS


def test_tensors_give_the_same_model(small, quick, expected):
    y = torch.tensor(small.y == "well")
    site = torch.tensor(np.unique(small.site, return_inverse=True)[1])
    model = InvariantClassifier("rex", recipe=quick).fit(torch.tensor(small.X), y, environments=site)
    assert model.classes_.tolist() == [False, True]
    assert model.predict_proba(torch.tensor(small.X)) == pytest.approx(expected, abs=1e-9)  # rows in another order


def test_the_precision_of_the_model_is_that_of_its_inputs(small, quick):
    for kind in (np.float32, np.float64):
        model = InvariantRegressor("erm", recipe=quick).fit(small.X.astype(kind), small.X[:, 0])
        assert str(model.module_.head.weight.dtype) == f"torch.{np.dtype(kind)}"
    half = torch.tensor(small.X).to(torch.bfloat16)
    assert InvariantRegressor("erm", recipe=quick).fit(half, half[:, 0]).module_.head.weight.dtype == torch.float32


@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.coo_array, lambda x: torch.tensor(x).to_sparse()])
def test_sparse_inputs_are_refused_in_a_word(small, quick, make):
    with pytest.raises(BadValue, match="expected a dense one; give X"):
        InvariantClassifier("erm", recipe=quick).fit(make(small.X), small.y)


@pytest.mark.parametrize(
    ("environments", "says"),
    [
        (["a", "b"], r"environments has shape \(2,\); expected one value for each of the 3 rows"),
        ([["a"], ["b"], ["c"]], r"shape \(3, 1\)"),
        (["a", None, "b"], "environments has no value in row 1"),
        ([0.0, 1.0, float("nan")], "environments has no value in row 2"),
        (np.array(["a", 1, "b"], dtype=object), "environments mixes int and str"),
    ],
)
def test_environments_that_are_none_are_one_line(environments, says):
    with pytest.raises(BadValue, match=says) as caught:
        environment_codes(environments, 3)
    assert "\n" not in str(caught.value)


def test_environments_keep_their_kind():
    for given in (["b", "a", "b"], [2, 1, 2], np.array([2.5, 1, 2.5]), [True, False, True]):
        values, codes = environment_codes(given, 3)
        assert values.dtype == np.asarray(given).dtype
        assert (values[codes] == np.asarray(given)).all()


@pytest.mark.parametrize(
    ("weight", "says"), [([1, -1], "negative"), ([1, np.nan], "negative or missing"), ([0, 0], "zero"), ([1], "shape")]
)
def test_weights_that_are_none_are_one_line(weight, says):
    with pytest.raises(BadValue, match=says):
        checked_weights(weight, 2)


def test_one_weight_is_everybodys():
    assert checked_weights(2, 3).tolist() == [2, 2, 2]


def test_a_model_of_a_frame_takes_its_columns_as_an_array(small, quick):
    frame = pd.DataFrame(small.X, columns=COLUMNS).assign(ward=np.where(small.X[:, 0] > 0, "x", "y"))
    frame.loc[3, ["a", "ward"]] = None
    model = InvariantClassifier("rex", recipe=quick).fit(frame, small.y, environments=small.site)
    with pytest.warns(UserWarning, match="does not have valid feature names"):  # scikit-learn's own
        found = model.predict_proba(frame.to_numpy())
    assert (found == model.predict_proba(frame)).all()


def test_cells_that_cannot_be_read_are_said(small, quick):
    frame = pd.DataFrame(small.X, columns=COLUMNS)
    model = InvariantClassifier("rex", recipe=quick).fit(frame, small.y, environments=small.site)
    with pytest.warns(UserWarning, match="'a': 1 cell with"):
        model.predict(frame.astype({"a": object}).replace({"a": {frame["a"][0]: "fifty"}}))
