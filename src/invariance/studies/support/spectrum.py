"""Accuracy in every test environment as curves."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, pstdev

from invariance.core.artefacts import Curve, Flag, Lines
from invariance.experiments.selected_runs import SelectedRuns

BETA = "β="
UNIT = "accuracy, %"


def spectrum(title: str, rows: Mapping[str, SelectedRuns], *, methods: Mapping[str, str] | None = None) -> Lines | None:
    """Accuracy of every method over the environments, or None where nothing finished.

    Rows that are not called after their method say in ``methods`` which one it is.
    """
    accuracies = {name: accuracy for name, row in rows.items() if (accuracy := row.curve())}
    if not accuracies:
        return None
    environments = list(dict.fromkeys(e for accuracy in accuracies.values() for e in accuracy))
    places = () if all(map(_is_beta, environments)) else tuple(environments)
    curves = tuple(
        replace(flagged(accuracy_curve(name, accuracy, places), rows[name]), method=(methods or {}).get(name, name))
        for name, accuracy in accuracies.items()
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


def flagged(curve: Curve, row: SelectedRuns) -> Curve:
    """The curve, with a mark at its end where some of its seeds collapsed."""
    if not row.collapsed:
        return curve
    return replace(curve, flags=(Flag(curve.x[-1], curve.y[-1], row.status),))


def accuracy_curve(name: str, accuracy: Mapping[str, Sequence[float]], places: Sequence[str] = ()) -> Curve:
    """The mean over seeds in each environment, at its β or at its place, with a band of one standard deviation.

    One seed has no band.
    """
    x = tuple(float(places.index(e)) if places else float(e.removeprefix(BETA)) for e in accuracy)
    means = tuple(fmean(values) for values in accuracy.values())
    if all(len(values) < 2 for values in accuracy.values()):
        return Curve(name, x, means, method=name)
    deviations = [pstdev(values) for values in accuracy.values()]
    low, high = (tuple(m + sign * s for m, s in zip(means, deviations, strict=True)) for sign in (-1, 1))
    return Curve(name, x, means, low, high, method=name)
