"""The report on a model of somebody's own data: an assessment as a page."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from invariance import __version__
from invariance.core.artefacts import Artefact, Column, Curve, Figure, Line, Lines, Table
from invariance.fitting.assess import Assessment, Examined
from invariance.fitting.by_environment import EnvironmentScore, EnvironmentScores
from invariance.fitting.importance import PermutationImportance, largest_differences
from invariance.fitting.verdict import percent, verdict, worst
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.report.citation import citations
from invariance.report.page import Chapter, Page
from invariance.report.run_chapters import methods

MOST_SITES = 25
"""Sites that are drawn and listed, those with the lowest accuracy first."""
MOST_COLUMNS, MOST_DRAWN = 30, 6
OPTIMISTIC = "The method was chosen on the same left-out sites, so its own numbers are a little optimistic."
PIXELS = (
    "A column can be shuffled to see whether answers hang on it; a pixel means nothing by itself. So what in an image "
    "the model looks at is not said here: where it fails at a new site, look at the images it got wrong there."
)


@dataclass(frozen=True)
class About:
    """What the page is about: the file, the column that is predicted, roles of all columns, and what was noticed."""

    file: str
    label: str
    columns: tuple[tuple[str, str, str], ...] = ()
    """Name, role and why."""
    notes: tuple[str, ...] = ()


def model_page(found: Assessment, about: About) -> Page:
    """Everything a practitioner needs to decide whether to use the model."""
    said = verdict(found)
    today = date.today()
    chapters = [
        Chapter("advice", "What to do", (*said.advice, *(f"In the data: {note}." for note in about.notes))),
        Chapter("sites", "New sites", artefacts=tuple(_sites(found))),
        Chapter("test", "Test data", artefacts=tuple(_test(found))),
        Chapter("certainty", "Certainty", artefacts=tuple(_certainty(found))),
        _leaning(found, about),
        methods((_method(examined.title) for examined in found.both), differences=False),
    ]
    return Page(
        title=f"Predicting {about.label} at new sites",
        note=said.headline,
        made=f"Made by invariance {__version__} on {today.day} {today:%B %Y} from {about.file}.{_chosen(found)}",
        facts=_facts(found),
        chapters=tuple(chapter for chapter in chapters if chapter.words or chapter.artefacts),
        citations=citations(),
    )


def _chosen(found: Assessment) -> str:
    return f" {found.model.title} was chosen: {found.reason}." if found.reason else ""


def _method(title: str) -> type[Method]:
    return next(cls for cls in METHODS.classes.values() if cls.title == title)


def _facts(found: Assessment) -> tuple[tuple[str, str], ...]:
    facts = [(found.unit, f"{found.rows:,}"), ("environments", f"{found.environments:,}")]
    facts += [("columns", f"{len(found.model.importances):,}")] if found.model.importances else []
    facts += [("classes", f"{len(found.classes)}")]
    for examined in found.both:
        if at := examined.forecast:
            facts.append((f"{examined.title}, new site", percent(at.mean)))
            facts.append((f"{examined.title}, worst", percent(worst(examined.new).accuracy)))
    return tuple(facts)


def _sites(found: Assessment) -> Iterable[Artefact]:
    models = found.both
    if not found.model.new:
        return
    yield _expected(found)
    yield _accuracy_figure(
        "new-sites",
        "Accuracy at each site when it was left out of training",
        "Every model was trained without the site it is tested at, so this is what a new site would have seen. With "
        f"95 % intervals: the fewer {found.unit} a site has, the wider.",
        [(m.title, m.new) for m in models],
    )
    yield _site_table(
        "new-sites-table",
        "Each site in numbers",
        "Share of right answers in %, with 95 % intervals. Always the same: what naming the site's most frequent class "
        "would give. Known: the same site when it took part in training.",
        found,
        known=True,
    )


def _expected(found: Assessment) -> Table:
    lines = []
    for m in found.both:
        if at := m.forecast:
            low = worst(m.new)
            known = sum(site.accuracy for site in m.known) / len(m.known)
            cells = (
                100 * known,
                100 * at.mean,
                f"{100 * at.low:.0f} to {100 * at.high:.0f}",
                100 * low.accuracy,
                low.name,
            )
            lines.append(Line(m.title, cells))
    names = ("known sites", "a new site", "95 % range", "the worst site", "which")
    return Table(
        "expected",
        "What to expect at a new site",
        "Share of right answers in %: mean over sites that were left out in turn, and the range in which one more site "
        "like these would lie in 19 of 20 cases. A site of another kind may lie outside.",
        "model",
        tuple(map(Column, names)),
        tuple(lines),
        notes=(OPTIMISTIC,) if found.reason else (),
    )


def _test(found: Assessment) -> Iterable[Artefact]:
    if not found.model.test:
        return
    yield _accuracy_figure(
        "test-sites",
        "Accuracy in the test data",
        f"These {found.unit} took no part in training. With 95 % intervals.",
        [(m.title, m.test) for m in found.both],
    )
    yield _site_table("test-sites-table", "Each site of the test data", "Share of right answers in %.", found)


def _accuracy_figure(name: str, title: str, about: str, models: Sequence[tuple[str, EnvironmentScores]]) -> Figure:
    shown = _lowest(models[0][1])
    curves = []
    for label, sites in models:
        by_name = {site.name: site for site in sites}
        points = [(float(i), by_name[n]) for i, n in enumerate(shown) if n in by_name]
        curves.append(
            Curve(
                label,
                tuple(i for i, _ in points),
                tuple(100 * site.accuracy for _, site in points),
                tuple(100 * site.low for _, site in points),
                tuple(100 * site.high for _, site in points),
            )
        )
    lowest = min(low for curve in curves for low in curve.low)
    span = (10 * math.floor(lowest / 10), 100)
    panel = Lines("", "site", "right answers, %", tuple(curves), span=span, places=tuple(shown))
    return Figure(name, title, about, (panel,), notes=_left_out(models[0][1]))


def _site_table(name: str, title: str, about: str, found: Assessment, *, known: bool = False) -> Table:
    def pick(m: Examined) -> EnvironmentScores:
        return m.new if known else m.test

    models = found.both
    sites = [{site.name: site for site in pick(m)} for m in models]
    before = {site.name: site for site in found.model.known}
    names = [found.unit, "always the same", *(part for m in models for part in (m.title, "interval"))]
    names += [f"{found.model.title}, known"] if known else []
    lines = []
    for each in _lowest(pick(found.model)):
        cells: list[float | str] = [sites[0][each].rows, 100 * sites[0][each].majority]
        for by_name in sites:
            site = by_name.get(each)
            cells += [100 * site.accuracy, f"{100 * site.low:.0f} to {100 * site.high:.0f}"] if site else ["", ""]
        cells += [100 * before[each].accuracy] if known else []
        lines.append(Line(each, tuple(cells)))
    columns = tuple(map(Column, names))
    return Table(name, title, about, "site", columns, tuple(lines), notes=_left_out(pick(found.model)))


def _certainty(found: Assessment) -> Iterable[Artefact]:
    models = found.both
    curves = [
        Curve(m.title, tuple(100 * s for s, _, _ in m.reliability), tuple(100 * r for _, r, _ in m.reliability))
        for m in models
    ]
    least = 100 / len(found.classes)
    ideal = Curve("as it should be", (least, 100.0), (least, 100.0), dashed=True)
    panel = Lines("", "how sure, %", "how often right, %", (*curves, ideal), span=(0, 100))
    where = "sites that were left out of training" if found.model.new else f"the {found.unit} it was trained on"
    yield Figure(
        "reliability",
        "Do the probabilities mean what they say?",
        f"Answers grouped by how sure the model was, at {where}. Below the dashed line it promises too much.",
        (panel,),
    )
    sites = {site.name: site for site in found.model.new or found.model.known}
    each = [{site.name: site for site in m.new or m.known} for m in models]
    lines = []
    for name in _lowest(tuple(sites.values())):
        cells: list[float | str] = []
        for by_name in each:
            site = by_name.get(name)
            cells += [100 * v for v in (site.confidence, site.accuracy, site.calibration_error)] if site else [""] * 3
        lines.append(Line(name, tuple(cells)))
    columns = tuple(Column(name, m.title) for m in models for name in ("sure", "right", "calibration error"))
    yield Table(
        "calibration",
        "Calibration at each site",
        "In %: how sure on average, how often right, and how far the two are apart within groups of equal certainty.",
        "site",
        columns,
        tuple(lines),
        notes=_left_out(tuple(sites.values())),
    )


def _leaning(found: Assessment, about: About) -> Chapter:
    if found.model.importances:
        return Chapter("columns", "What it leans on", artefacts=tuple(_columns(found, about)))
    return Chapter("columns", "What it leans on", (PIXELS,))


def _columns(found: Assessment, about: About) -> Iterable[Artefact]:
    models = found.both
    apart = _apart(models)
    lines = [
        Line(pair[0].column, tuple(cell for one in pair for cell in (100 * one.changed, _range(one)))) for pair in apart
    ]
    columns = tuple(Column(name, m.title) for m in models for name in ("answers that change", "accuracy lost"))
    yield Table(
        "leanings",
        "How much each model leans on each column",
        "A column is shuffled among the rows of a site: which share of the answers change, in %, and how many points "
        "of accuracy are lost, from the site where it is least to the one where it is most. Where a number is "
        "negative, the column misleads. Columns on which the models differ most come first.",
        "column",
        columns,
        tuple(lines),
    )
    drawn = [pair for pair in apart[:MOST_DRAWN] if max(one.changed for one in pair) > 0]
    if drawn:
        yield _leaning_figure(models, drawn)
    if about.columns:
        roles = tuple(Line(name, (kind, why)) for name, kind, why in about.columns)
        yield Table(
            "roles",
            "What each column was taken for",
            "Change it with --numeric, --categorical or --ignore.",
            "column",
            (Column("taken for"), Column("because")),
            roles,
        )


def _leaning_figure(models: Sequence[Examined], drawn: Sequence[tuple[PermutationImportance, ...]]) -> Figure:
    places = tuple(drawn[0][0].drop_by_environment)
    panels = []
    for i, m in enumerate(models):
        curves = tuple(
            Curve(
                pair[i].column,
                tuple(map(float, range(len(places)))),
                tuple(100 * pair[i].drop_by_environment[place] for place in places),
            )
            for pair in drawn
        )
        panels.append(Lines(m.title, "site", "points of accuracy lost", curves, places=places))
    about = "Accuracy that is lost at each site when a column is shuffled there; below zero, the column misleads."
    return Figure("leanings-by-site", "The same column at different sites", about, tuple(panels))


def _apart(models: Sequence[Examined]) -> Sequence[tuple[PermutationImportance, ...]]:
    """Every column with what each model makes of it: those first on which the models differ most, or one leans most."""
    if len(models) == 2:
        return largest_differences(models[0].importances, models[1].importances, MOST_COLUMNS)
    return [(one,) for one in sorted(models[0].importances, key=lambda one: -one.changed)][:MOST_COLUMNS]


def _range(leaning: PermutationImportance) -> str:
    drops = [100 * drop for drop in leaning.drop_by_environment.values()]
    return f"{min(drops):.1f} to {max(drops):.1f}".replace("-", "−")


def _lowest(sites: Sequence[EnvironmentScore]) -> list[str]:
    """Names of the sites to show, in the order in which they came; of many, those with the lowest accuracy."""
    kept = sorted(sites, key=lambda site: site.accuracy)[:MOST_SITES]
    return [site.name for site in (sites if len(sites) <= MOST_SITES else kept)]


def _left_out(sites: Sequence[EnvironmentScore]) -> tuple[str, ...]:
    rest = len(sites) - MOST_SITES
    return (f"Not shown: {rest:,} more sites, at all of which it does better.",) if rest > 0 else ()
