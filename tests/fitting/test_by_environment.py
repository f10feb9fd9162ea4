import math

import numpy as np
import pytest

from invariance.fitting.by_environment import (
    EnvironmentScore,
    calibration_error,
    environment_scores,
    forecast,
    reliability,
)


def score(accuracy: float, name: str = "Lyon") -> EnvironmentScore:
    return EnvironmentScore(name, 100, accuracy, accuracy - 0.1, accuracy + 0.1, 0.8, 0.05, 0.5)


def test_every_environment_is_scored_on_its_own_rows():
    p = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.7, 0.3]])
    y, e = np.array([0, 1, 0, 0]), np.array([0, 2, 0, 2])
    first, second = environment_scores(p, y, e, ["a", "empty", "b"])
    assert (first.name, first.rows, first.accuracy, first.majority) == ("a", 2, 0.5, 1.0)
    assert (second.name, second.rows, second.accuracy, second.majority) == ("b", 2, 1.0, 0.5)
    assert first.confidence == pytest.approx(0.75)


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
        interval = forecast([score(accuracy) for accuracy in seen])
        inside += interval.low <= new <= interval.high
    assert inside / 2000 == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 2000))


def test_one_environment_gives_no_forecast():
    assert forecast([score(0.9)]) is None
