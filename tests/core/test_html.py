"""What notebooks show of objects: tables of HTML in which names are text."""

import math
import re

import numpy as np
import pytest
import sklearn

from invariance import ERM, InvariantClassifier, REx, Scores
from invariance.core.artefacts import Column, Difference, Line, Printed, Quantity, Sparkline, Table
from invariance.core.html import html_table
from invariance.estimators.choice import Candidate, Choice
from invariance.fitting.assess import AssessedModel, Assessment
from invariance.fitting.by_environment import EnvironmentScore

NAME = "<script>alert(1)</script> & co"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt; &amp; co"


def cells(html: str) -> list[str]:
    return re.findall(r"<td[^>]*>(.*?)</td>", html)


def test_a_table_escapes_every_name_and_aligns_numbers():
    html = html_table((NAME, "b"), [(NAME, 0.12345), ("x", math.nan)], title=NAME, notes=NAME)
    assert "<script>" not in html
    assert html.count(ESCAPED) == 4
    assert cells(html) == [ESCAPED, "0.123", "x", ""]
    assert re.search('<td style="text-align: right[^>]*>0.123', html)


def test_scores_show_environments_and_their_summary():
    html = Scores({NAME: 0.9, "Bern": 0.5}, {"Bern": (0.4, 0.6)})._repr_html_()
    assert cells(html)[:6] == [ESCAPED, "0.900", "", "Bern", "0.500", "0.400 to 0.600"]
    assert cells(html)[-3:] == ["gap", "0.400", ""]
    assert "95 % interval" not in Scores({"a": 1.0})._repr_html_()


def test_a_table_of_a_study_shows_ours_beside_printed():
    row = (Quantity((70.0, 72.0), Printed(68.3)), Quantity(note="no run yet"), Sparkline((95.0, 50.0, 5.0)))
    more = (Difference((1.0, 2.0), 0.5, 2.5), 3.14159, ("one", "two"))
    columns = tuple(Column(name, group) for name, group in zip("abcdef", ("g", *[""] * 5), strict=True))
    html = Table("t", "Title", "Caption.", "method", columns, (Line(NAME, (*row, *more)),))._repr_html_()
    assert cells(html) == [
        *(ESCAPED, "71.0 ± 1.0 (printed 68.3)", "no run yet", "95 … 5", "1.5 [0.5, 2.5]", "3.142", "one two")
    ]
    assert "g: a</th>" in html


def test_a_choice_says_what_was_chosen_and_why():
    candidates = (Candidate(ERM(), 0.1, 0.9, 0.5, 1.2), Candidate(REx(gamma=50.0), 0.1, 0.2, 0.6, 0.7))
    html = Choice(candidates[1].method, "it is better", candidates=candidates)._repr_html_()
    assert cells(html) == ["erm", "", "0.500", "1.200", "", "rex", "50", "0.600", "0.700", "chosen"]
    assert "It is better. Risks" in html


@pytest.fixture(scope="module")
def fitted() -> InvariantClassifier:
    X = np.random.default_rng(0).normal(size=(90, 2))
    return InvariantClassifier("erm", recipe={"epochs": 2}).fit(X, X[:, 0] > 0, environments=[NAME, "b", "c"] * 30)


def test_an_estimator_is_shown_as_scikit_learn_shows_it_and_with_its_scores(fitted):
    bundle = fitted._repr_mimebundle_()
    assert "sk-estimator" in bundle["text/html"]
    assert ESCAPED in bundle["text/html"]
    assert NAME not in bundle["text/html"]
    assert ESCAPED in fitted._repr_html_()
    assert ">environment</th>" in fitted._repr_html_()
    assert ">environment</th>" not in InvariantClassifier()._repr_html_()


def test_an_estimator_is_text_where_scikit_learn_shows_text(fitted):
    with sklearn.config_context(display="text"):
        assert fitted._repr_mimebundle_().keys() == {"text/plain"}


def test_an_assessment_shows_both_models_where_they_were_trained_and_where_not():
    def scores(*values: float) -> tuple[EnvironmentScore, ...]:
        return tuple(
            EnvironmentScore(name, 10, v, v - 0.1, v + 0.1, 0.5, {})
            for name, v in zip((NAME, "b", "c"), values, strict=False)
        )

    own = AssessedModel("REx", scores(0.8, 0.8, 0.7), scores(0.7, 0.7, 0.7), ())
    erm = AssessedModel("ERM", scores(0.9, 0.9, 0.9), scores(0.6, 0.5), ())
    html = Assessment(own, erm, "", (), 30, 3)._repr_html_()
    assert cells(html)[:5] == [ESCAPED, "0.800", "0.700", "0.900", "0.600"]
    assert cells(html)[-1] == ""  # ERM was not tested there
    assert "REx, left out" in html
    assert "At one more environment" in html
