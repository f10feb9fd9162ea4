import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from invariance.fitting.by_environment import Site, calibration_error, forecast, reliability, sites, wilson


def site(right: float, name: str = "Lyon") -> Site:
    return Site(name, 100, right, right - 0.1, right + 0.1, 0.8, 0.05, 0.5)


@given(st.integers(1, 500).flatmap(lambda rows: st.tuples(st.integers(0, rows), st.just(rows))))
def test_the_interval_of_a_share_is_wilsons(pair):
    right, rows = pair
    theirs = binomtest(right, rows).proportion_ci(method="wilson")
    assert wilson(right, rows) == pytest.approx((theirs.low, theirs.high), abs=1e-4)


def test_every_environment_is_scored_on_its_own_rows():
    p = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.7, 0.3]])
    y, e = np.array([0, 1, 0, 0]), np.array([0, 2, 0, 2])
    first, second = sites(p, y, e, ["a", "empty", "b"])
    assert (first.name, first.rows, first.right, first.chance) == ("a", 2, 0.5, 1.0)
    assert (second.name, second.rows, second.right, second.chance) == ("b", 2, 1.0, 0.5)
    assert first.sure == pytest.approx(0.75)


def test_a_model_that_is_as_sure_as_it_is_right_has_no_calibration_error():
    sure = np.full(100, 0.75)
    right = np.arange(100) < 75
    assert calibration_error(sure, right) == pytest.approx(0)
    assert calibration_error(np.ones(100), right) == pytest.approx(0.25)


def test_reliability_groups_answers_by_how_sure_they_are():
    p = np.array([[0.95, 0.05], [0.96, 0.04], [0.45, 0.55]])
    assert reliability(p, np.array([0, 1, 1])) == ((pytest.approx(0.55), 1.0, 1), (pytest.approx(0.955), 0.5, 2))


def test_a_new_site_lies_in_the_range_in_nineteen_of_twenty_cases():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(2000):
        *seen, new = rng.normal(0.6, 0.05, 7)
        found = forecast([site(right) for right in seen])
        inside += found.low <= new <= found.high
    assert inside / 2000 == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 2000))


def test_one_site_foretells_nothing():
    assert forecast([site(0.9)]) is None
