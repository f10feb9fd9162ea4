"""The chapters of a fit report on new sites and on test data: what to expect, and every site by itself."""

import math
from collections.abc import Callable, Iterable, Sequence

from invariance.core.artefacts import Artefact, Column, Curve, Figure, Line, Lines, Table
from invariance.fitting.assess import AssessedModel, Assessment
from invariance.fitting.by_environment import EnvironmentScores, Headline, mean_of, worst_of
from invariance.report.render.formats import fixed

MAX_ENVIRONMENTS = 25
"""Environments in figures and tables, those where the model is worst."""
ALL_OF_THEM = "All are in the output of invariance fit --json."
CHOSEN_HERE = "The method was chosen on the same rows, so its numbers are a little optimistic."
ADVERSE = (
    "Effects turned: the training rows, weighted as they would be at a site where the effects that vary between sites "
    "go against the model as far as the sites suggest (the end of the 95 % prediction interval of each effect, at most "
    "its reverse, or as far as at one of these sites). An extrapolation, not a measurement."
)

Pick = Callable[[AssessedModel], EnvironmentScores]


def new_sites(assessment: Assessment) -> Iterable[Artefact]:
    """What to expect at a new site, and each site when it was left out."""
    if assessment.model.new or assessment.model.adverse is not None:
        yield _expected(assessment)
    if not assessment.model.new:
        return
    title = assessment.headline.metric.title
    yield _figure(
        "new-sites",
        f"{_capital(title)} at each site when it was left out of training",
        "Each model was trained without the site that it is tested on, so every site is a new one. With 95 % "
        f"intervals: the fewer {assessment.unit} a site has, the wider they are.",
        assessment,
        lambda model: model.new,
    )
    yield _table(
        "new-sites-table",
        "Each site in numbers",
        f"{_unit(assessment.headline)}, with 95 % intervals. Constant: the best constant prediction for the site. "
        f"Known: {title} at the site when it was part of the training data.",
        assessment,
        lambda model: model.new,
        known=True,
    )


def test_sites(assessment: Assessment) -> Iterable[Artefact]:
    """The data given with ``--test``, if there are some."""
    if not assessment.model.test:
        return
    yield _figure(
        "test-sites",
        f"{_capital(assessment.headline.metric.title)} in the test data",
        "The data given with --test, which are not used in training. With 95 % intervals.",
        assessment,
        lambda model: model.test,
    )
    yield _table(
        "test-sites-table",
        "Each site of the test data",
        f"{_unit(assessment.headline)}, with 95 % intervals.",
        assessment,
        lambda model: model.test,
    )


def shown_sites(scores: EnvironmentScores, headline: Headline) -> list[str]:
    """Names of environments to show, in their order: all, or those where the model is worst if there are too many."""
    worst = sorted(scores, key=lambda score: headline.gain(score.headline, 0.0))[:MAX_ENVIRONMENTS]
    names = {score.name for score in worst}
    return [score.name for score in scores if score.name in names]


def selection(assessment: Assessment, scores: EnvironmentScores) -> tuple[str, ...]:
    """A note on which environments are shown, if these are not all."""
    if len(scores) <= MAX_ENVIRONMENTS:
        return ()
    worst = f"where {assessment.model.title}'s {assessment.headline.metric.title} is worst"
    return (f"Shown are {MAX_ENVIRONMENTS} of {len(scores):,} sites, those {worst}. {ALL_OF_THEM}",)


def in_unit(value: float, headline: Headline) -> float:
    """Percent for shares, other metrics as they are."""
    return 100 * value if headline.share else value


def decimals(headline: Headline, values: Iterable[float]) -> int:
    """How many decimals numbers of one metric are shown with, all the same: one in percent, else for three digits."""
    if headline.share:
        return 1
    largest = max((abs(value) for value in values if math.isfinite(value) and value), default=1.0)
    return max(2 - math.floor(math.log10(largest)), 0)


def _expected(assessment: Assessment) -> Table:
    headline = assessment.headline
    lines, adverse = [], assessment.varying is not None
    for model in assessment.both:
        at = assessment.forecast(model)
        values = [mean_of(model.known)]
        digits = decimals(headline, [*values, at.mean if at else 0.0])
        cells: list[float | str] = [_number(values[0], headline, digits)]
        if at:
            low = worst_of(model.new, headline)
            range_ = f"{_number(at.low, headline, digits)} to {_number(at.high, headline, digits)}"
            cells += [
                _number(at.mean, headline, digits),
                range_ if assessment.supported(model) else "not supported",
                _number(low.headline, headline, digits),
                low.name,
            ]
        cells += ([""] * 4 if not at and assessment.model.new else []) + (
            [_number(model.adverse, headline, digits)] if adverse and model.adverse is not None else []
        )
        lines.append(Line(model.title, tuple(cells)))
    names = ["known sites"]
    names += ["a new site", "95 % range", "worst site", "which"] if assessment.model.new else []
    names += ["effects turned"] if adverse else []
    assumed = (
        "A new site: the mean over sites, each of which was left out of training in turn, and the 95 % prediction "
        "interval for one more site, if it differs from these as they differ from each other. A site of another kind "
        "may lie outside."
    )
    notes = [ADVERSE] if adverse else []
    notes += [CHOSEN_HERE] if assessment.reason else []
    return Table(
        "expected",
        "What to expect at a new site",
        f"{_unit(headline)}. {assumed if assessment.model.new else ''}".strip(),
        "model",
        tuple(map(Column, names)),
        tuple(lines),
        notes=tuple(notes),
    )


def _figure(name: str, title: str, about: str, assessment: Assessment, pick: Pick) -> Figure:
    headline, scores = assessment.headline, pick(assessment.model)
    shown = shown_sites(scores, headline)
    curves = []
    for model in assessment.both:
        by_name = {score.name: score for score in pick(model)}
        points = [(float(i), by_name[n]) for i, n in enumerate(shown) if n in by_name]
        curves.append(
            Curve(
                model.title,
                tuple(i for i, _ in points),
                tuple(in_unit(score.headline, headline) for _, score in points),
                tuple(in_unit(score.low, headline) for _, score in points),
                tuple(in_unit(score.high, headline) for _, score in points),
            )
        )
    unit = f"{headline.metric.title}, %" if headline.share else headline.metric.title
    panel = Lines("", "site", unit, tuple(curves), span=_span(curves, headline), places=tuple(shown))
    return Figure(name, title, about, (panel,), notes=selection(assessment, scores))


def _span(curves: Sequence[Curve], headline: Headline) -> tuple[float, float] | None:
    lows = [low for curve in curves for low in curve.low if math.isfinite(low)]
    return (10 * math.floor(min(lows) / 10), 100) if headline.share and lows else None


def _table(name: str, title: str, about: str, assessment: Assessment, pick: Pick, *, known: bool = False) -> Table:
    headline, models = assessment.headline, assessment.both
    tested = [{score.name: score for score in pick(model)} for model in models]
    in_training = {score.name: score for score in assessment.model.known}
    digits = decimals(headline, [score.headline for by_name in tested for score in by_name.values()])
    names = [assessment.unit, "constant", *(part for model in models for part in (model.title, "interval"))]
    names += [f"{assessment.model.title}, known"] if known else []
    lines = []
    for environment in shown_sites(pick(assessment.model), headline):
        first = tested[0][environment]
        cells: list[float | str] = [first.rows, _number(first.constant, headline, digits)]
        for by_name in tested:
            score = by_name.get(environment)
            ends = (_number(end, headline, digits) for end in (score.low, score.high)) if score else ()
            cells += [_number(score.headline, headline, digits), " to ".join(ends)] if score else ["", ""]
        cells += [_number(in_training[environment].headline, headline, digits)] if known else []
        lines.append(Line(environment, tuple(cells)))
    columns = tuple(map(Column, names))
    notes = selection(assessment, pick(assessment.model))
    return Table(name, title, about, "site", columns, tuple(lines), notes=notes)


def _number(value: float, headline: Headline, digits: int) -> str:
    return fixed(in_unit(value, headline), digits)


def _unit(headline: Headline) -> str:
    return f"{_capital(headline.metric.title)}{' in %' if headline.share else ''}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
