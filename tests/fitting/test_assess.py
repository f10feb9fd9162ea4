import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from invariance.core.errors import BadValue
from invariance.core.rows import Rows
from invariance.fitting.assess import Assessment, assess_model, left_out
from invariance.fitting.by_environment import Headline

COLUMNS = [("a", slice(0, 1)), ("b", slice(1, 3))]


@pytest.fixture
def rows() -> Rows:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 240)
    x = rng.normal(size=(240, 3)).astype(np.float32)
    x[:, 0] += 2 * y
    return Rows.of(x, np.array(["no", "yes"])[y], np.repeat(list("abcd"), 60))


class Logistic(LogisticRegression):
    """A model that answers as estimators of the package do."""

    def predict_rows(self, x):
        return self.predict_proba(x)


class Line(LinearRegression):
    """The same, for numbers."""

    def predict_rows(self, x):
        return self.predict(x)[:, None]


def fit(rows: Rows) -> Logistic:
    return Logistic().fit(rows.x, rows.y)


def test_every_row_is_predicted_by_a_model_that_never_saw_its_environment(rows):
    seen = []

    def watched(part: Rows) -> Logistic:
        seen.append(set(part.environments))
        return fit(part)

    p, there = left_out(watched, rows, fit(rows))
    assert there.all()
    assert sorted(map(len, seen)) == [3, 3, 3, 3]
    for name in "abcd":
        rest = rows.environments != name
        own = fit(Rows.of(rows.x[rest], rows.y[rest], rows.environments[rest])).predict_proba(rows.x[~rest])
        assert p[~rest] == pytest.approx(own)


def test_environments_that_cannot_be_left_out_are_passed_over(rows):
    def refuses(part: Rows) -> Logistic:
        if "a" in part.environments:
            return fit(part)
        raise BadValue("one class")

    _, there = left_out(refuses, rows, fit(rows))
    assert set(rows.environments[there]) == set("bcd")
    two = Rows.of(rows.x, rows.y, np.repeat(["a", "b"], 120))
    assert not left_out(fit, two, fit(two))[1].any()


def test_a_class_that_a_part_of_the_rows_lacks_has_no_probability_there(rows):
    y = rows.y.astype(object)
    y[rows.environments == "a"] = "maybe"
    odd = Rows.of(rows.x, y, rows.environments)
    p, _ = left_out(fit, odd, fit(odd))
    assert (p[:60, 0] == 0).all()
    assert p.sum(1) == pytest.approx(1)


def test_a_model_is_examined_in_known_new_and_test_environments(rows):
    test = Rows.of(rows.x[:20], np.where(np.arange(20) < 5, "never", rows.y[:20]), np.full(20, "t"))
    assessed = assess_model("LR", fit(rows), fit, rows, test, COLUMNS, Headline())
    assert [score.name for score in assessed.known] == [score.name for score in assessed.new] == list("abcd")
    assert [(score.name, score.rows) for score in assessed.test] == [("t", 20)]
    assert assessed.test[0].headline <= 0.75
    assert [one.column for one in assessed.importances] == ["a", "b"]
    assert assessed.importances[0].changed > assessed.importances[1].changed


def test_numbers_are_examined_by_their_errors(rows):
    numbers = Rows.of(rows.x, rows.x[:, 0] + rows.x[:, 1] ** 2, rows.environments)

    def line(part: Rows) -> Line:
        return Line().fit(part.x, part.y)

    assessed = assess_model("OLS", line(numbers), line, numbers, None, COLUMNS, Headline("rmse"))
    assert [score.name for score in assessed.new] == list("abcd")
    assert all(score.headline == score.values["rmse"] > 0 for score in assessed.new)
    assert assessed.reliability == assessed.importances == ()


def test_the_keys_of_an_assessment_as_plain_data_stay_as_they_were(rows):
    assessed = assess_model("LR", fit(rows), fit, rows, None, COLUMNS, Headline()).to_json()
    assert {"title", "known", "new", "test", "reliability", "leanings"} <= assessed.keys()
    assert {"name", "rows", "right", "low", "high", "sure", "error", "chance"} <= assessed["new"][0].keys()
    by_site = ["changed_by_site", "drop_by_site", "drop_interval_by_site"]
    assert list(assessed["leanings"][0]) == ["column", "changed", *by_site]
    baseline = assess_model("ERM", fit(rows), fit, rows, None, COLUMNS, Headline())
    whole = Assessment(baseline, baseline, "", (("no", 1),), 240, 4).to_json()
    assert {"model", "rival", "reason", "classes", "environments", "unit"} <= whole.keys()
