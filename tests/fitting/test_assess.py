import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from invariance.core.errors import BadValue
from invariance.estimators.rows import Rows
from invariance.fitting.assess import examine, left_out

COLUMNS = [("a", slice(0, 1)), ("b", slice(1, 3))]


@pytest.fixture
def rows() -> Rows:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 240)
    x = rng.normal(size=(240, 3)).astype(np.float32)
    x[:, 0] += 2 * y
    return Rows(x, np.array(["no", "yes"])[y], np.repeat(list("abcd"), 60))


def fit(rows: Rows) -> LogisticRegression:
    return LogisticRegression().fit(rows.x, rows.y)


def test_every_row_is_predicted_by_a_model_that_never_saw_its_environment(rows):
    seen = []

    def watched(part: Rows) -> LogisticRegression:
        seen.append(set(part.environments))
        return fit(part)

    e = np.repeat(range(4), 60)
    p, there = left_out(watched, rows, e, 4, np.array(["no", "yes"]))
    assert there.all()
    assert sorted(map(len, seen)) == [3, 3, 3, 3]
    for name in "abcd":
        rest = rows.environments != name
        own = fit(Rows(rows.x[rest], rows.y[rest], rows.environments[rest])).predict_proba(rows.x[~rest])
        assert p[~rest] == pytest.approx(own)


def test_environments_that_cannot_be_left_out_are_passed_over(rows):
    def refuses(part: Rows) -> LogisticRegression:
        if "a" in part.environments:
            return fit(part)
        raise BadValue("one class")

    _, there = left_out(refuses, rows, np.repeat(range(4), 60), 4, np.array(["no", "yes"]))
    assert set(rows.environments[there]) == set("bcd")
    assert not left_out(fit, rows, np.repeat([0, 1], 120), 2, np.array(["no", "yes"]))[1].any()


def test_a_class_that_a_part_of_the_rows_lacks_has_no_probability_there(rows):
    y = rows.y.astype(object)
    y[rows.environments == "a"] = "maybe"
    odd = Rows(rows.x, y, rows.environments)
    p, _ = left_out(fit, odd, np.repeat(range(4), 60), 4, np.array(["maybe", "no", "yes"]))
    assert (p[:60, 0] == 0).all()
    assert p.sum(1) == pytest.approx(1)


def test_a_model_is_examined_at_known_new_and_test_sites(rows):
    test = Rows(rows.x[:20], np.where(np.arange(20) < 5, "never", rows.y[:20]), np.full(20, "t"))
    found = examine("LR", fit(rows), fit, rows, test, COLUMNS)
    assert [site.name for site in found.known] == [site.name for site in found.new] == list("abcd")
    assert [(site.name, site.rows) for site in found.test] == [("t", 20)]
    assert found.test[0].right <= 0.75
    assert [one.column for one in found.leanings] == ["a", "b"]
    assert found.leanings[0].changed > found.leanings[1].changed
    assert found.forecast.low < found.forecast.mean < found.forecast.high
