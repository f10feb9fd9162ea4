"""The chapters of a fit report on all metrics and on calibration."""

import math
from collections.abc import Iterable

from invariance.core.artefacts import Artefact, Column, Curve, Figure, Line, Lines, Table
from invariance.fitting.assess import AssessedModel, Assessment
from invariance.fitting.by_environment import EnvironmentScores, mean_of
from invariance.fitting.summary import TITLES, cells, heading, metric_names
from invariance.report.fit_sites import selection, shown_sites
from invariance.report.render.formats import fixed


def metric_tables(assessment: Assessment) -> Iterable[Artefact]:
    """Every metric of both models: means over sites, then site by site."""
    names = metric_names(assessment)
    lines = [
        Line(f"{model.title}, {where}", tuple(cells({name: mean_of(scores, name) for name in names})))
        for model in assessment.both
        for where, scores in (("known sites", model.known), ("new sites", model.new), ("test data", model.test))
        if scores
    ]
    yield Table(
        "metrics",
        "Both models by all metrics",
        f"Means over sites. New sites: each site when it was left out of training. {_legend(assessment)}",
        "model",
        tuple(Column(heading(name)) for name in names),
        tuple(lines),
    )
    for model in assessment.both:
        yield _by_site(assessment, model)


def _by_site(assessment: Assessment, model: AssessedModel) -> Table:
    scores, names = _scores(model), metric_names(assessment)
    by_name = {score.name: score for score in scores}
    chosen = _scores(assessment.model)
    order = [name for name in shown_sites(chosen, assessment.headline) if name in by_name]
    lines = [
        Line(name, tuple(cells({key: by_name[name].values.get(key, math.nan) for key in names}))) for name in order
    ]
    where = "when it was left out of training" if model.new else "in training"
    return Table(
        f"metrics-{model.title.lower().replace(' ', '-')}",
        f"{model.title} at each site",
        f"Each site {where}. {_legend(assessment)}",
        "site",
        tuple(Column(heading(name)) for name in names),
        tuple(lines),
        notes=selection(assessment, chosen),
    )


def _scores(model: AssessedModel) -> EnvironmentScores:
    return model.new or model.known


def _legend(assessment: Assessment) -> str:
    if not assessment.classes:
        return "RMSE and MAE are in units of the label."
    if len(assessment.classes) > 2:
        return "AUC and average precision are means over classes, each against the rest."
    return (
        f"Positive is the class {assessment.positive}, also for average precision; change this with --positive. "
        f"Sensitivity and specificity are at a probability of {fixed(100 * assessment.headline.threshold, 1)} % for "
        "it; change this with --threshold or --cost."
    )


def calibration(assessment: Assessment) -> Iterable[Artefact]:
    """Whether probabilities are what they say; numbers have none."""
    if assessment.classes:
        yield _reliability(assessment)
        yield _calibration_table(assessment)


def _reliability(assessment: Assessment) -> Figure:
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
    models, scores = assessment.both, _scores(assessment.model)
    names = ("confidence", "accuracy", "calibration-error")
    tested = [{score.name: score.values for score in _scores(model)} for model in models]
    lines = []
    for site in shown_sites(scores, assessment.headline):
        cells = [fixed(100 * by_name.get(site, {}).get(name, math.nan), 1) for by_name in tested for name in names]
        lines.append(Line(site, tuple(cells)))
    columns = tuple(Column(TITLES[name], model.title) for model in models for name in names)
    return Table(
        "calibration",
        "Calibration at each site",
        "Mean confidence, accuracy, and the expected calibration error: the mean difference between the two within "
        f"bins of confidence. All in %. By chance alone it is larger at a site with fewer {assessment.unit}.",
        "site",
        columns,
        tuple(lines),
        notes=selection(assessment, scores),
    )
