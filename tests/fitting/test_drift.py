import json

import numpy as np
import pytest

from invariance.core.errors import BadValue
from invariance.core.rows import Rows
from invariance.fitting.drift import MIN_ROWS, DriftReference

COLUMNS = (("age", slice(0, 1)), ("ward", slice(1, 3)))


def site(rng: np.random.Generator, shift: float, rows: int = 400) -> np.ndarray:
    """Rows whose first input is shifted."""
    return (rng.normal(size=(rows, 3)) + np.array([shift, 0, 0])).astype(np.float32)


@pytest.fixture(scope="module")
def reference() -> DriftReference:
    rng = np.random.default_rng(0)
    x = np.concatenate([site(rng, shift) for shift in (-0.3, 0.0, 0.3)])
    return DriftReference.of(Rows.of(x, np.zeros(len(x)), np.repeat(["a", "b", "c"], 400)), COLUMNS)


def drift_of(reference: DriftReference, x: np.ndarray):
    return reference.drift(x.sum(0, dtype=np.float64), len(x), COLUMNS)


def test_a_site_like_the_others_is_not_unlike(reference):
    drift = drift_of(reference, site(np.random.default_rng(1), 0.2))
    assert not drift.unlike
    assert drift.farthest == pytest.approx(0.3 * 1.5 / np.sqrt(2), rel=0.35)


def test_a_site_that_is_shifted_is_unlike_and_says_where(reference):
    drift = drift_of(reference, site(np.random.default_rng(1), 3.0))
    assert drift.unlike
    assert drift.columns[0] == "age"
    assert "unlike the training sites" in str(drift)
    assert drift.to_json()["unlike"] is True


def test_the_number_of_rows_alone_is_no_drift(reference):
    rng = np.random.default_rng(2)
    small = np.mean([drift_of(reference, site(rng, 0.0, MIN_ROWS)).distance for _ in range(50)])
    assert small < 0.15
    assert drift_of(reference, site(rng, 9.0, MIN_ROWS - 1)) is None


def test_one_site_is_no_reference():
    x = np.zeros((50, 3), np.float32)
    assert DriftReference.of(Rows.of(x, np.zeros(50), np.full(50, "a")), COLUMNS) is None


def test_a_reference_is_plain_data(reference):
    assert DriftReference.from_json(json.loads(json.dumps(reference.to_json()))) == reference
    with pytest.raises(BadValue):
        DriftReference.from_json({"mean": [1.0]})
