"""All metrics of an assessment in a few lines of text, for a model's card."""

from collections.abc import Iterable, Mapping
from typing import Any

from invariance.evaluation.metrics import METRICS
from invariance.fitting.assess import Assessment
from invariance.fitting.by_environment import mean_of, worst_of
from invariance.fitting.verdict import verdict

IN_PERCENT = ("accuracy", "auc", "average-precision", "sensitivity", "specificity", "calibration-error", "confidence")
TITLES = {
    **{name: metric.title for name, metric in METRICS.items()},
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "calibration-error": "calibration error",
    "confidence": "confidence",
}


def summary(assessment: Assessment) -> dict[str, Any]:
    """The verdict, and every metric of both models: means over sites, and the worst new site."""
    names, lines = metric_names(assessment), []
    for model in assessment.both:
        for where, scores in (("known sites", model.known), ("new sites", model.new)):
            if scores:
                means = {name: mean_of(scores, name) for name in names}
                lines.append([f"{model.title}, mean over {where}", *cells(means)])
        if model.new:
            worst = worst_of(model.new, assessment.headline)
            lines.append([f"{model.title}, worst new site ({worst.name})", *cells({n: worst.values[n] for n in names})])
    return {"summary": verdict(assessment).headline, "headings": ["", *map(heading, names)], "lines": lines}


def metric_names(assessment: Assessment) -> list[str]:
    """The metrics that the models have, by name."""
    found = assessment.model.known[0].values
    return [name for name in TITLES if name in found and name != "confidence"]


def heading(name: str) -> str:
    """The metric and its unit."""
    return f"{TITLES[name]}, %" if name in IN_PERCENT else TITLES[name]


def cells(values: Mapping[str, float]) -> Iterable[str]:
    """Numbers of these metrics, all of one metric with the same decimals; nothing for what is not defined."""
    for name, value in values.items():
        text = f"{100 * value:.1f}" if name in IN_PERCENT else f"{value:.3f}"
        yield "–" if value != value else text.replace("-", "−")
