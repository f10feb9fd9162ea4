"""What must not matter does not: units, offsets, orders and names. How much is left is in docs/reliability.md."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch

import invariance
from invariance.core.environment import Environment
from invariance.estimators.network import Standard
from invariance.methods import METHODS

NAMES = [name for name, cls in METHODS.classes.items() if not cls.oracle]
RECIPE = invariance.recipe("full-batch", changes={"epochs": 30, "lr": 0.02})
ROWS = 90


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, ROWS)
    return y[:, None] + rng.normal(size=(ROWS, 3)), y, np.repeat(["a", "b", "c"], ROWS // 3)


def probabilities(method: str, X: np.ndarray, y: np.ndarray, e: np.ndarray) -> np.ndarray:
    model = invariance.InvariantClassifier(method, recipe=RECIPE)
    return model.fit(X, y, environments=e).predict_proba(X)[:, 1]


@pytest.fixture(scope="module")
def expected(table) -> Callable[..., np.ndarray]:
    """The probabilities of a method on the table as it is."""

    @cache
    def unchanged(method: str, dtype: type = np.float64) -> np.ndarray:
        X, y, e = table
        return probabilities(method, X.astype(dtype), y, e)

    return unchanged


@pytest.mark.parametrize("method", NAMES)
@pytest.mark.parametrize("exponent", [66, -66])
def test_the_unit_of_a_column_does_not_matter_to_the_last_bit(table, expected, method, exponent):
    """By powers of two, about 10^±20: then nothing is rounded on the way."""
    X, y, e = table
    changed = X.astype(np.float32) * np.float32(2.0**exponent)
    assert (probabilities(method, changed, y, e) == expected(method, np.float32)).all()


@pytest.mark.parametrize("scale", [1e19, 1e-23, 1e30, 1e-30])
def test_a_column_of_any_scale_is_standardised(scale):
    rng = np.random.default_rng(0)
    x = torch.from_numpy((scale * rng.normal(3, 1, (500, 1))).astype(np.float32))
    z = Standard.of([Environment("a", x, torch.zeros(500))])(x)
    assert float(z.std()) == pytest.approx(1, abs=0.01)
    assert float(z.mean()) == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("method", NAMES)
def test_the_offset_of_a_column_does_not_matter(table, expected, method):
    X, y, e = table
    assert probabilities(method, X + 100, y, e) == pytest.approx(expected(method), abs=1e-6)


@pytest.mark.parametrize("method", NAMES)
def test_the_order_of_rows_and_the_names_of_environments_do_not_matter_to_the_last_bit(table, expected, method):
    """BIRM's halves and Env-PoE's parts of the rows followed their order: probabilities changed by 0.5."""
    X, y, e = table
    order = np.random.default_rng(1).permutation(ROWS)
    renamed = np.array([{"a": "site 3", "b": "site 1", "c": "site 2"}[name] for name in e])
    changed = probabilities(method, X[order], y[order], renamed[order])
    assert (changed[np.argsort(order)] == expected(method)).all()


@pytest.mark.parametrize("method", [name for name in NAMES if name not in {"irm-game", "sparse-irm"}])
def test_the_order_of_columns_does_not_matter(table, expected, method):
    """Initial weights followed it; other heads of IRM-Game and the masks of SparseIRM still do."""
    X, y, e = table
    assert probabilities(method, X[:, [2, 0, 1]], y, e) == pytest.approx(expected(method), abs=1e-6)


def test_the_order_of_rows_does_not_matter_beside_constant_columns_and_equal_ones(table):
    X, y, e = table
    X = np.column_stack([X, np.full(ROWS, 0.1), X[:, 0], np.arange(ROWS) % 2])
    order = np.random.default_rng(1).permutation(ROWS)
    changed = probabilities("birm", X[order], y[order], e[order])
    assert (changed[np.argsort(order)] == probabilities("birm", X, y, e)).all()


def test_the_order_of_rows_does_not_matter_to_a_choice_of_a_method(table):
    X, y, e = table
    order = np.random.default_rng(1).permutation(ROWS)
    chosen = invariance.InvariantClassifier(hidden=()).fit(X, y, environments=e)
    again = invariance.InvariantClassifier(hidden=()).fit(X[order], y[order], environments=e[order])
    assert again.choice_ == chosen.choice_


def test_a_model_that_gives_no_number_says_so(table):
    X, y, e = table
    model = invariance.InvariantClassifier("erm", recipe=RECIPE).fit(X, y, environments=e)
    next(model.module_.parameters()).data.fill_(np.nan)
    with pytest.raises(invariance.BadValue, match="row 0"):
        model.predict(X)


def test_a_collapsed_model_warns():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 1)), rng.integers(0, 2, 400)
    with pytest.warns(UserWarning, match="the model has collapsed"):
        invariance.InvariantClassifier("erm", recipe=RECIPE).fit(X, y, environments=np.arange(400) % 2)


def test_probabilities_of_a_rare_class_that_say_something_are_no_collapse(recwarn):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 1))
    y = (rng.random(2000) < 1 / (1 + np.exp(4.5 - 1.2 * X[:, 0]))).astype(int)
    model = invariance.InvariantClassifier("erm", recipe={"epochs": 60}).fit(X, y, environments=np.arange(2000) % 2)
    assert 0 < y.mean() < 0.05
    assert not model.predict(X).any()
    assert model.note_ == ""
    assert not [warning for warning in recwarn if "collapsed" in str(warning.message)]
