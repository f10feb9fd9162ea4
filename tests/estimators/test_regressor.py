import numpy as np
import pytest

from invariance.estimators.card import card
from invariance.estimators.regressor import InvariantRegressor
from invariance.recipes.presets import recipe


@pytest.fixture(scope="module")
def numbers():
    """y is a cause and noise everywhere; a second column is y and noise, more of it in each environment."""
    rng = np.random.default_rng(0)
    e = np.repeat([0, 1, 2], 100)
    cause = rng.normal(size=300)
    y = cause + 0.5 * rng.normal(size=300)
    effect = y + np.array([0.1, 0.5, 1.5])[e] * rng.normal(size=300)
    return np.column_stack([cause, effect]), 1000 + 50 * y, e


def test_targets_keep_their_units(numbers):
    X, y, e = numbers
    how = recipe("full-batch", changes={"epochs": 150, "lr": 0.02})
    model = InvariantRegressor("erm", recipe=how, hidden=()).fit(X, y, environments=e)
    assert model.predict(X).mean() == pytest.approx(y.mean(), abs=10)
    assert model.score(X, y) > 0.5
    assert model.scores_.mean < 0  # minus the mean squared error, of standardised targets
    again = InvariantRegressor("erm", recipe=how, hidden=()).fit(X, 2 * y - 7, environments=e)
    assert again.predict(X) == pytest.approx(2 * model.predict(X) - 7)


def leaning(model: InvariantRegressor) -> float:
    return float(abs(model.predict([[0.0, 1.0]]) - model.predict([[0.0, -1.0]]))[0])


def test_rex_equalises_risks_by_leaning_less_on_the_effect(numbers):
    X, y, e = numbers
    erm, rex = (InvariantRegressor(method).fit(X, y, environments=e) for method in ("erm", "rex"))
    assert rex.scores_.gap < 0.2 * erm.scores_.gap
    assert leaning(rex) < 0.7 * leaning(erm)


def test_the_default_recipe_reaches_the_optimum_of_rex(numbers):
    # Equal risks leave REx some of the effect: of all models with equal risks, it is the one of the least mean risk.
    X, y, e = numbers
    default, long = (InvariantRegressor("rex", recipe=r).fit(X, y, environments=e) for r in ("auto", {"epochs": 1000}))
    assert leaning(default) == pytest.approx(leaning(long), rel=0.01)


def test_a_constant_target_is_predicted(numbers):
    X, _, e = numbers
    how = recipe("full-batch", changes={"epochs": 300, "lr": 0.02})
    model = InvariantRegressor("erm", recipe=how).fit(X, np.full(300, 4.0), environments=e)
    assert model.predict(X) == pytest.approx(4, abs=0.1)


def test_env_poe_predicts_without_the_effect_and_says_so_where_there_is_nothing_to_remove():
    rng = np.random.default_rng(0)
    e = np.repeat([0, 1], 2000)
    cause = rng.normal(size=4000)
    y = cause + rng.normal(size=4000)
    noise = rng.normal(size=4000)
    fits = []
    for spread in (np.array([0.5, 1.0])[e], 0.7):
        X = np.column_stack([cause, y + spread * noise])
        fits.append(InvariantRegressor("env-poe", hidden=()).fit(X, 1000 + 50 * y, environments=e))
    differs, alike = fits
    assert leaning(differs) / 100 == pytest.approx(0, abs=0.15)
    assert differs.note_ == ""
    assert leaning(alike) / 100 > 0.4
    assert "trained without a biased expert: no cue was found" in alike.note_
    assert alike.note_ == card(alike, "", {})["note"]
