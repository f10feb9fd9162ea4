"""Accuracy in every test environment as curves."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, pstdev

from invariance.core.artefacts import Curve, Lines
from invariance.experiments.selected_runs import SelectedRuns

BETA = "β="
UNIT = "accuracy, %"


def spectrum(title: str, rows: Mapping[str, SelectedRuns]) -> Lines | None:
    """Accuracy of every method over the environments, or None where nothing finished."""
    accuracies = {name: accuracy for name, row in rows.items() if (accuracy := row.curve())}
    if not accuracies:
        return None
    environments = list(dict.fromkeys(e for accuracy in accuracies.values() for e in accuracy))
    places = () if all(map(_is_beta, environments)) else tuple(environments)
    curves = tuple(
        curve
        if any(len(values) > 1 for values in accuracies[curve.label].values())
        else replace(curve, low=(), high=())
        for curve in (accuracy_curve(name, accuracy, places) for name, accuracy in accuracies.items())
    )
    percent = all(0 <= y <= 100 for curve in curves for y in curve.y)
    axis = "environment" if places else "β, how often the spurious cue contradicts the label"
    return Lines(title, axis, UNIT, curves, span=(0, 100) if percent else None, places=places)


def _is_beta(environment: str) -> bool:
    """Whether an environment is named by its β; a domain of a user's own may be called β=anything."""
    try:
        return environment.startswith(BETA) and math.isfinite(float(environment.removeprefix(BETA)))
    except ValueError:
        return False


def accuracy_curve(name: str, accuracy: Mapping[str, Sequence[float]], places: Sequence[str] = ()) -> Curve:
    """The mean over seeds in each environment, at its β or at its place, with a band of one standard deviation."""
    x = tuple(float(places.index(e)) if places else float(e.removeprefix(BETA)) for e in accuracy)
    means = tuple(fmean(values) for values in accuracy.values())
    deviations = [pstdev(values) for values in accuracy.values()]
    low, high = (tuple(m + sign * s for m, s in zip(means, deviations, strict=True)) for sign in (-1, 1))
    return Curve(name, x, means, low, high)
