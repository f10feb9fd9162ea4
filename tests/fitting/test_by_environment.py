import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, r2_score, roc_auc_score

from invariance.fitting.by_environment import (
    EnvironmentScore,
    Headline,
    calibration_error,
    environment_scores,
    forecast,
    interval,
    metric_values,
    reliability,
    worst_of,
)

ACCURACY, RMSE = Headline(), Headline("rmse")


def score(value: float, name: str = "Lyon") -> EnvironmentScore:
    return EnvironmentScore(name, 100, value, value - 0.1, value + 0.1, 0.5, {})


def test_every_environment_is_scored_on_its_own_rows():
    p = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.7, 0.3]])
    y, e = np.array([0, 1, 0, 0]), np.array([0, 2, 0, 2])
    first, second = environment_scores(p, y, e, ["a", "empty", "b"], ACCURACY)
    assert (first.name, first.rows, first.headline, first.constant) == ("a", 2, 0.5, 1.0)
    assert (second.name, second.rows, second.headline, second.constant) == ("b", 2, 1.0, 0.5)
    assert first.values["confidence"] == pytest.approx(0.75)
    assert math.isnan(first.values["auc"])
    assert first.to_json()["metrics"]["auc"] is None


def test_two_classes_have_what_medicine_asks_for():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 500)
    p1 = (0.3 * y + 0.7 * rng.random(500)).clip(0, 1)
    values = metric_values(np.column_stack([1 - p1, p1]), y, threshold=0.6)
    assert values["auc"] == pytest.approx(roc_auc_score(y, p1))
    assert values["average-precision"] == pytest.approx(average_precision_score(y, p1))
    assert values["sensitivity"] == pytest.approx((p1[y == 1] >= 0.6).mean())
    assert values["specificity"] == pytest.approx((p1[y == 0] < 0.6).mean())
    lower = metric_values(np.column_stack([1 - p1, p1]), y, threshold=0.4)
    assert lower["sensitivity"] > values["sensitivity"]
    assert lower["specificity"] < values["specificity"]


def test_numbers_have_their_errors():
    rng = np.random.default_rng(0)
    y = rng.normal(size=400)
    predicted = y + 0.5 * rng.normal(size=400)
    (one,) = environment_scores(predicted, y, np.zeros(400, dtype=np.int64), ["a"], RMSE)
    assert one.values["r2"] == pytest.approx(r2_score(y, predicted))
    assert one.values["mae"] == pytest.approx(np.abs(predicted - y).mean())
    assert one.low < one.headline == one.values["rmse"] < one.high
    assert one.constant == pytest.approx(y.std())


@pytest.mark.parametrize("name", ["auc", "average-precision", "log-loss"])
def test_the_interval_of_a_metric_holds_its_value_and_narrows_with_rows(name):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4000)
    p1 = (0.2 * y + 0.8 * rng.random(4000)).clip(0.01, 0.99)
    p, headline = np.column_stack([1 - p1, p1]), Headline(name)
    few, many = (interval(p[:n], y[:n], headline) for n in (100, 4000))
    assert few[0] < headline.metric.value(p[:100], y[:100], None) < few[1]
    assert many[1] - many[0] < 0.4 * (few[1] - few[0])


def test_a_model_whose_confidence_is_its_accuracy_has_no_calibration_error():
    confidence = np.full(100, 0.75)
    correct = np.arange(100) < 75
    assert calibration_error(confidence, correct) == pytest.approx(0)
    assert calibration_error(np.ones(100), correct) == pytest.approx(0.25)


def test_reliability_groups_predictions_by_their_confidence():
    p = np.array([[0.95, 0.05], [0.96, 0.04], [0.45, 0.55]])
    assert reliability(p, np.array([0, 1, 1])) == ((pytest.approx(0.55), 1.0, 1), (pytest.approx(0.955), 0.5, 2))


def test_a_new_environment_lies_in_the_forecast_in_nineteen_of_twenty_cases():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(2000):
        *seen, new = rng.normal(0.6, 0.05, 7)
        found = forecast([score(accuracy) for accuracy in seen], ACCURACY)
        inside += found.low <= new <= found.high
    assert inside / 2000 == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 2000))


def test_one_environment_gives_no_forecast():
    assert forecast([score(0.9)], ACCURACY) is None


def test_the_worst_environment_has_the_highest_error_or_the_lowest_share():
    scores = (score(0.2, "low"), score(0.8, "high"))
    assert worst_of(scores, ACCURACY).name == "low"
    assert worst_of(scores, RMSE).name == "high"
