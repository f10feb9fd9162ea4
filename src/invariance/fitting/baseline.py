"""A fitted model assessed beside its baseline."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from invariance.core.rows import Rows
from invariance.estimators import defaults
from invariance.estimators.classifier import InvariantClassifier
from invariance.fitting.assess import Assessment, assess_model
from invariance.methods.base import Method


def assess(
    estimator: InvariantClassifier, rows: Rows, test: Rows | None, columns: Sequence[tuple[str, slice]]
) -> Assessment:
    """Assess a fitted classifier and its baseline, each trained again with environments left out in turn."""
    method = _baseline(estimator)
    assessed = partial(assess_model, rows=rows, test=test, columns=columns)
    model = assessed(estimator.objective_.title, estimator, partial(_fit, estimator, estimator.objective_))
    baseline = None
    if method:
        baseline = assessed(method.title, _fit(estimator, method, rows), partial(_fit, estimator, method))
    names, counts = np.unique(rows.y, return_counts=True)
    return Assessment(
        model,
        baseline,
        estimator.choice_.reason if estimator.choice_ else "",
        tuple(zip(map(str, names), counts.tolist(), strict=True)),
        len(estimator.environments_),
        rows.unit,
    )


def _baseline(estimator: InvariantClassifier) -> Method | None:
    """ERM; where the model is ERM itself, the best invariant method; None with one environment."""
    if len(estimator.environments_) < 2:
        return None
    erm = defaults.objective("erm")
    if estimator.objective_.title != erm.title:
        return erm
    candidates = estimator.choice_.candidates if estimator.choice_ else ()
    invariant = [candidate for candidate in candidates if candidate.objective.title != erm.title]
    return min(invariant, key=lambda c: c.adverse_risk).objective if invariant else defaults.objective("env-poe")


def _fit(estimator: InvariantClassifier, objective: Method, rows: Rows) -> Any:
    return clone(estimator).set_params(method=objective, hidden=estimator.hidden_).fit_rows(rows)
