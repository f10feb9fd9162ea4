"""An assessment as a page; what the commands make of a real one is in e2e/test_tables.py."""

import math
import re
from dataclasses import replace

import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

from invariance.core.artefacts import Figure
from invariance.fitting.assess import AssessedModel, Assessment
from invariance.fitting.by_environment import EnvironmentScore, Headline
from invariance.fitting.importance import PermutationImportance
from invariance.report.fit_report import About, model_page
from invariance.report.fit_sites import MAX_ENVIRONMENTS
from invariance.report.html_page import render


def assessed_model(title: str, names: list[str]) -> AssessedModel:
    accuracy = [0.5 + i / 4 / len(names) for i in range(len(names))]
    values = {"log-loss": 0.6, "auc": 0.7, "confidence": 0.8, "calibration-error": 0.1, "sensitivity": math.nan}
    scores = tuple(
        EnvironmentScore(n, 10 + i, accuracy[i], 0.4, 0.9, 0.5, {"accuracy": accuracy[i], **values})
        for i, n in enumerate(names)
    )
    drops = dict.fromkeys(names[:12], -0.1)
    importances = (PermutationImportance("tint", 0.2, dict.fromkeys(names[:12], 0.2), drops),)
    return AssessedModel(title, scores, scores, scores[:2], ((0.6, 0.5, 9), (0.9, 0.8, 9)), importances)


def assessment(names: list[str]) -> Assessment:
    return Assessment(
        assessed_model("REx", names),
        assessed_model("ERM", names),
        "its risk is lower",
        (("no", 5), ("yes", 5)),
        10,
        len(names),
    )


@pytest.fixture
def names(request) -> list[str]:
    return [f"site {i}" for i in range(getattr(request, "param", 6))]


def test_everything_a_practitioner_asks_is_on_the_page(names):
    page = model_page(
        assessment(names), About("patients.csv", "sick", (("tint", "numeric", "0 to 1"),), ("2 rows left out",))
    )
    assert [chapter.title for chapter in page.chapters] == [
        *("What to do", "New sites", "Test data", "All metrics", "Calibration", "What it relies on", "Methods")
    ]
    text = render(page)
    for words in (
        "Predicting sick at new sites",
        "REx was chosen because its risk is lower.",
        "2 rows left out",
        "−10.0 to −10.0",
    ):
        assert words in text
    assert "Collapsed" not in text
    ids = re.findall(r'<(?:section|article)[^>]* id="([^"]*)"', text)
    assert len(ids) == len(set(ids)) > 10


@pytest.mark.parametrize("names", [2000], indirect=True)
def test_of_many_sites_the_worst_are_shown(names):
    page = model_page(assessment(names), About("patients.csv", "sick"))
    figures = [a for a in page.artefacts() if isinstance(a, Figure) and a.name == "new-sites"]
    assert figures[0].panels[0].places == tuple(names[:MAX_ENVIRONMENTS])
    which = "Shown are 25 of 2,000 sites, those where REx's accuracy is worst."
    note = f"{which} All are in the output of invariance fit --json."
    assert figures[0].notes == (note,)
    notes = {a.name: a.notes for a in page.artefacts()}
    assert [notes[name] for name in ("new-sites-table", "metrics-erm", "calibration")] == [(note,)] * 3
    assert len(render(page)) < 6 << 20


@pytest.mark.parametrize("names", [200], indirect=True)
def test_importance_says_which_sites_it_is_measured_at_and_which_columns_are_shown(names):
    assessed = assessment(names)
    many = [
        replace(one, importances=tuple(replace(one.importances[0], column=f"column {i}") for i in range(40)))
        for one in assessed.both
    ]
    page = model_page(replace(assessed, model=many[0], baseline=many[1]), About("patients.csv", "sick"))
    notes = {a.name: a.notes for a in page.artefacts() if a.name.startswith("importance")}
    sites = "Measured at 12 of 200 sites, those with the most rows."
    order, rest = "on which the models differ most", "All are in the output of invariance fit --json."
    assert notes["importance"] == (sites, f"Shown are 30 of 40 columns, those {order}. {rest}")
    drawn = (sites, f"Shown are 6 of 40 columns, those {order} and that change a prediction. {rest}")
    assert notes["importance-by-site"] == notes["importance-intervals"] == drawn


def test_nothing_is_said_of_a_selection_where_all_is_shown(names):
    page = model_page(assessment(names), About("patients.csv", "sick"))
    assert not [note for a in page.artefacts() for note in a.notes if "Shown are" in note or "Measured at" in note]


def test_names_of_others_are_text_and_nothing_else(hostile):
    about = About(hostile[0], hostile[1], ((hostile[2], "numeric", hostile[3]),), (hostile[4],))
    text = render(model_page(assessment(list(hostile)), about))
    assert "<script>alert" not in text
    assert "<img" not in text


def test_a_page_on_images_speaks_of_images_and_not_of_columns(names):
    assessed = assessment(names)
    bare = [replace(one, importances=()) for one in assessed.both]
    page = model_page(
        replace(assessed, model=bare[0], baseline=bare[1], unit="images"), About("photos", "the class of an image")
    )
    assert page.chapters[-2].artefacts == ()
    assert "A single pixel means nothing by itself" in page.chapters[-2].words[0]
    assert [name for name, _ in page.facts[:3]] == ["images", "environments", "classes"]
    text = " ".join(word for chapter in page.chapters for word in chapter.words)
    assert "labelled images from the site" in text
    assert "rows" not in text


def test_a_model_without_a_baseline_has_a_page(names):
    assessed = assessment(names)
    alone = Assessment(assessed.model, None, "", assessed.classes, 10, 1)
    assert "REx" in render(model_page(alone, About("patients.csv", "sick")))


def test_only_a_method_that_was_chosen_may_look_better_than_it_is(names):
    assessed = assessment(names)
    about = About("patients.csv", "sick")
    assert "a little optimistic" in render(model_page(assessed, about))
    assert "a little optimistic" not in render(model_page(replace(assessed, reason=""), about))


def test_panels_have_one_scale_and_sites_one_order(names):
    page = model_page(assessment(names), About("patients.csv", "sick"))
    (figure,) = [a for a in page.artefacts() if a.name == "importance-by-site"]
    assert len({panel.span for panel in figure.panels}) == 1
    assert len({panel.places for panel in figure.panels}) == 1
    tables = [a for a in page.artefacts() if a.name in ("new-sites-table", "calibration", "metrics-rex", "metrics-erm")]
    assert [[line.label for line in table.lines] for table in tables] == [names] * 4


def test_numbers_of_one_column_have_the_same_decimals(names):
    page = model_page(assessment(names), About("patients.csv", "sick"))
    for table in [a for a in page.artefacts() if a.name.startswith(("metrics", "calibration", "new-sites-table"))]:
        for column in zip(*(line.cells for line in table.lines), strict=True):
            texts = [cell for cell in column if isinstance(cell, str) and "." in cell and " to " not in cell]
            assert len({len(text.split(".")[1]) for text in texts}) <= 1


def test_a_regression_has_a_page_without_classes(names):
    scores = tuple(EnvironmentScore(n, 10, 2.0, 1.5, 2.5, 3.0, {"rmse": 2.0, "mae": 1.6, "r2": 0.5}) for n in names)
    model, erm = (AssessedModel(title, scores, scores, ()) for title in ("REx", "ERM"))
    whole = Assessment(model, erm, "", (), 60, 6, Headline("rmse"))
    page = model_page(whole, About("patients.csv", "days"))
    assert "Calibration" not in [chapter.title for chapter in page.chapters]
    assert "RMSE" in render(page)
    assert "classes" not in dict(page.facts)
