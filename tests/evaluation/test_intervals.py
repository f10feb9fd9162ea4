import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from invariance.evaluation.intervals import of_summary, wilson


@given(st.integers(1, 500).flatmap(lambda rows: st.tuples(st.integers(0, rows), st.just(rows))))
def test_the_interval_of_a_share_is_wilsons(pair):
    correct, rows = pair
    theirs = binomtest(correct, rows).proportion_ci(method="wilson")
    assert wilson(correct, rows) == pytest.approx((theirs.low, theirs.high), abs=1e-4)


def test_the_gap_between_two_environments_has_newcombes_interval():
    """Newcombe 1998, method 10, example (a): 56 of 70 and 48 of 80."""
    scores = {"first": 56 / 70, "second": 48 / 80}
    found = of_summary(scores, {"first": wilson(56, 70), "second": wilson(48, 80)})
    assert found["gap"] == pytest.approx((0.0524, 0.3339), abs=1e-4)
    assert found["worst"] == wilson(48, 80)
    low, high = found["mean"]
    assert low < 0.7 < high
