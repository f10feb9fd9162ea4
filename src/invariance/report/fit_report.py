"""The report on a model of a user's own data: an assessment as a page.

The page calls environments sites, and says so at its beginning.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from invariance import __version__
from invariance.core.artefacts import Artefact, Column, Line, Table
from invariance.fitting.assess import Assessment
from invariance.fitting.by_environment import worst_of
from invariance.fitting.verdict import verdict
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.report.citation import citations
from invariance.report.fit_importance import importance_artefacts
from invariance.report.fit_metrics import calibration, metric_tables
from invariance.report.fit_sites import new_sites, test_sites
from invariance.report.page import Chapter, Page
from invariance.report.run_chapters import methods

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
        Chapter("sites", "New sites", artefacts=tuple(new_sites(assessment))),
        Chapter("test", "Test data", artefacts=tuple(test_sites(assessment))),
        Chapter("all-metrics", "All metrics", artefacts=tuple(metric_tables(assessment))),
        Chapter("probabilities", "Calibration", artefacts=tuple(calibration(assessment))),
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
    facts += [("classes", f"{len(assessment.classes)}")] if assessment.classes else []
    show = assessment.headline.show
    for model in assessment.both:
        if at := assessment.forecast(model):
            facts.append((f"{model.title}, new site", show(at.mean)))
            facts.append((f"{model.title}, worst site", show(worst_of(model.new, assessment.headline).headline)))
        if model.adverse is not None:
            facts.append((f"{model.title}, effects turned", show(model.adverse)))
    return tuple(facts)


def _importance(assessment: Assessment, about: About) -> Chapter:
    words = (PIXELS,) if assessment.unit == "images" else ()
    return Chapter("columns", "What it relies on", words, artefacts=tuple(_columns(assessment, about)))


def _columns(assessment: Assessment, about: About) -> Iterable[Artefact]:
    if assessment.model.importances:
        yield from importance_artefacts(assessment)
    if about.columns:
        roles = tuple(Line(name, (kind, why)) for name, kind, why in about.columns)
        yield Table(
            "roles",
            "The role of each column",
            "Change it with options of invariance fit, such as --numeric, --categorical and --ignore.",
            "column",
            (Column("role"), Column("why")),
            roles,
        )
