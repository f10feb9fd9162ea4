"""The report on a model of a user's own data: an assessment as a page.

The page calls environments sites, and says so at its beginning.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from invariance import __version__
from invariance.core.artefacts import Artefact, Column, Curve, Figure, Line, Lines, Table
from invariance.fitting.assess import AssessedModel, Assessment
from invariance.fitting.by_environment import EnvironmentScore, EnvironmentScores
from invariance.fitting.verdict import percent, verdict, worst
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.report.citation import citations
from invariance.report.fit_importance import importance_artefacts
from invariance.report.page import Chapter, Page
from invariance.report.run_chapters import methods

MAX_ENVIRONMENTS = 25
"""Environments in figures and tables, those with the lowest accuracy."""
OPTIMISTIC = "The method was chosen on the same left-out sites, so its numbers are a little optimistic."
PIXELS = (
    "Permutation importance is measured for the columns of a table. A single pixel means nothing by itself, so this "
    "page does not say what the model relies on in an image. Where it fails at a new site, look at the images that it "
    "misclassified there."
)


@dataclass(frozen=True)
class About:
    """What the page is about: the file, the label, the roles of all columns, and notes on the data."""

    file: str
    label: str
    columns: tuple[tuple[str, str, str], ...] = ()
    """Name, role and why."""
    notes: tuple[str, ...] = ()


def model_page(assessment: Assessment, about: About) -> Page:
    """Everything a practitioner needs to decide whether to use the model."""
    summary = verdict(assessment)
    today = date.today()
    chapters = [
        Chapter("advice", "What to do", (*summary.advice, *(f"Note on the data: {note}." for note in about.notes))),
        Chapter("sites", "New sites", artefacts=tuple(_new_environments(assessment))),
        Chapter("test", "Test data", artefacts=tuple(_test(assessment))),
        Chapter("calibration", "Calibration", artefacts=tuple(_calibration(assessment))),
        _importance(assessment, about),
        methods((_method(model.title) for model in assessment.both), differences=False),
    ]
    return Page(
        title=f"Predicting {about.label} at new sites",
        note=summary.headline,
        made=f"Made by invariance {__version__} on {today.day} {today:%B %Y} from {about.file}.{_chosen(assessment)}",
        facts=_facts(assessment),
        chapters=tuple(chapter for chapter in chapters if chapter.words or chapter.artefacts),
        citations=citations(),
    )


def _chosen(assessment: Assessment) -> str:
    return f" {assessment.model.title} was chosen because {assessment.reason}." if assessment.reason else ""


def _method(title: str) -> type[Method]:
    return next(cls for cls in METHODS.classes.values() if cls.title == title)


def _facts(assessment: Assessment) -> tuple[tuple[str, str], ...]:
    facts = [(assessment.unit, f"{assessment.rows:,}"), ("environments", f"{assessment.environments:,}")]
    facts += [("columns", f"{len(assessment.model.importances):,}")] if assessment.model.importances else []
    facts += [("classes", f"{len(assessment.classes)}")]
    for model in assessment.both:
        if at := model.forecast:
            facts.append((f"{model.title}, new site", percent(at.mean)))
            facts.append((f"{model.title}, worst site", percent(worst(model.new).accuracy)))
    return tuple(facts)


def _new_environments(assessment: Assessment) -> Iterable[Artefact]:
    models = assessment.both
    if not assessment.model.new:
        return
    yield _expected(assessment)
    yield _accuracy_figure(
        "new-sites",
        "Accuracy at each site when it was left out of training",
        "Each model was trained without the site that it is tested on, so every site is a new one. With 95 % "
        f"intervals: the fewer {assessment.unit} a site has, the wider they are.",
        [(m.title, m.new) for m in models],
    )
    yield _environment_table(
        "new-sites-table",
        "Each site in numbers",
        "Accuracy in %, with 95 % intervals. Majority class: the accuracy of always predicting the site's most "
        "frequent class. Known: accuracy at the site when it was part of the training data.",
        assessment,
        known=True,
    )


def _expected(assessment: Assessment) -> Table:
    lines = []
    for m in assessment.both:
        if at := m.forecast:
            low = worst(m.new)
            known = sum(score.accuracy for score in m.known) / len(m.known)
            cells = (
                100 * known,
                100 * at.mean,
                f"{100 * at.low:.0f} to {100 * at.high:.0f}",
                100 * low.accuracy,
                low.name,
            )
            lines.append(Line(m.title, cells))
    names = ("known sites", "a new site", "95 % range", "worst site", "which")
    return Table(
        "expected",
        "What to expect at a new site",
        "Accuracy in %. A new site: the mean over sites, each of which was left out of training in turn, and the 95 % "
        "prediction interval for one more site like these. A site of another kind may lie outside.",
        "model",
        tuple(map(Column, names)),
        tuple(lines),
        notes=(OPTIMISTIC,) if assessment.reason else (),
    )


def _test(assessment: Assessment) -> Iterable[Artefact]:
    if not assessment.model.test:
        return
    yield _accuracy_figure(
        "test-sites",
        "Accuracy in the test data",
        "The data given with --test, which are not used in training. With 95 % intervals.",
        [(m.title, m.test) for m in assessment.both],
    )
    yield _environment_table(
        "test-sites-table", "Each site of the test data", "Accuracy in %, with 95 % intervals.", assessment
    )


def _accuracy_figure(name: str, title: str, about: str, models: Sequence[tuple[str, EnvironmentScores]]) -> Figure:
    shown = _lowest(models[0][1])
    curves = []
    for label, scores in models:
        by_name = {score.name: score for score in scores}
        points = [(float(i), by_name[n]) for i, n in enumerate(shown) if n in by_name]
        curves.append(
            Curve(
                label,
                tuple(i for i, _ in points),
                tuple(100 * score.accuracy for _, score in points),
                tuple(100 * score.low for _, score in points),
                tuple(100 * score.high for _, score in points),
            )
        )
    lowest = min(low for curve in curves for low in curve.low)
    span = (10 * math.floor(lowest / 10), 100)
    panel = Lines("", "site", "accuracy, %", tuple(curves), span=span, places=tuple(shown))
    return Figure(name, title, about, (panel,), notes=_not_shown(models[0][1]))


def _environment_table(name: str, title: str, about: str, assessment: Assessment, *, known: bool = False) -> Table:
    def pick(m: AssessedModel) -> EnvironmentScores:
        return m.new if known else m.test

    models = assessment.both
    tested = [{score.name: score for score in pick(m)} for m in models]
    in_training = {score.name: score for score in assessment.model.known}
    names = [assessment.unit, "majority class", *(part for m in models for part in (m.title, "interval"))]
    names += [f"{assessment.model.title}, known"] if known else []
    lines = []
    for environment in _lowest(pick(assessment.model)):
        first = tested[0][environment]
        cells: list[float | str] = [first.rows, 100 * first.majority]
        for by_name in tested:
            score = by_name.get(environment)
            cells += [100 * score.accuracy, f"{100 * score.low:.0f} to {100 * score.high:.0f}"] if score else ["", ""]
        cells += [100 * in_training[environment].accuracy] if known else []
        lines.append(Line(environment, tuple(cells)))
    columns = tuple(map(Column, names))
    return Table(name, title, about, "site", columns, tuple(lines), notes=_not_shown(pick(assessment.model)))


def _calibration(assessment: Assessment) -> Iterable[Artefact]:
    yield _reliability_figure(assessment)
    yield _calibration_table(assessment)


def _reliability_figure(assessment: Assessment) -> Figure:
    curves = [
        Curve(m.title, tuple(100 * c for c, _, _ in m.reliability), tuple(100 * a for _, a, _ in m.reliability))
        for m in assessment.both
    ]
    lowest = 100 / len(assessment.classes)
    ideal = Curve("calibrated", (lowest, 100.0), (lowest, 100.0), dashed=True)
    panel = Lines("", "confidence, %", "accuracy, %", (*curves, ideal), span=(0, 100))
    where = "at sites that were left out of training" if assessment.model.new else "on the training data"
    return Figure(
        "reliability",
        "Are the probabilities calibrated?",
        f"Accuracy of predictions in bins of confidence (the probability of the predicted class), {where}. Below the "
        "dashed line the model is overconfident.",
        (panel,),
    )


def _calibration_table(assessment: Assessment) -> Table:
    models = assessment.both
    scores = assessment.model.new or assessment.model.known
    tested = [{score.name: score for score in m.new or m.known} for m in models]
    lines = []
    for environment in _lowest(scores):
        cells: list[float | str] = []
        for by_name in tested:
            score = by_name.get(environment)
            shares = (score.confidence, score.accuracy, score.calibration_error) if score else ()
            cells += [100 * share for share in shares] or [""] * 3
        lines.append(Line(environment, tuple(cells)))
    columns = tuple(Column(name, m.title) for m in models for name in ("confidence", "accuracy", "calibration error"))
    return Table(
        "calibration",
        "Calibration at each site",
        "Mean confidence, accuracy, and the expected calibration error: the mean difference between the two within "
        "bins of confidence. All in %.",
        "site",
        columns,
        tuple(lines),
        notes=_not_shown(scores),
    )


def _importance(assessment: Assessment, about: About) -> Chapter:
    if assessment.model.importances:
        return Chapter("columns", "What it relies on", artefacts=tuple(_columns(assessment, about)))
    return Chapter("columns", "What it relies on", (PIXELS,))


def _columns(assessment: Assessment, about: About) -> Iterable[Artefact]:
    yield from importance_artefacts(assessment.both)
    if about.columns:
        roles = tuple(Line(name, (kind, why)) for name, kind, why in about.columns)
        yield Table(
            "roles",
            "The role of each column",
            "Change it with the options --numeric, --categorical and --ignore of invariance fit.",
            "column",
            (Column("role"), Column("why")),
            roles,
        )


def _lowest(scores: Sequence[EnvironmentScore]) -> list[str]:
    """Names of environments to show: all in the given order, or those of lowest accuracy if there are too many."""
    lowest = sorted(scores, key=lambda score: score.accuracy)[:MAX_ENVIRONMENTS]
    return [score.name for score in (scores if len(scores) <= MAX_ENVIRONMENTS else lowest)]


def _not_shown(scores: Sequence[EnvironmentScore]) -> tuple[str, ...]:
    rest = len(scores) - MAX_ENVIRONMENTS
    return (f"Not shown: {rest:,} more sites, all with a higher accuracy.",) if rest > 0 else ()
