"""A fitted model assessed beside its baseline."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.base import clone

from invariance.core.rows import Rows
from invariance.estimators import defaults
from invariance.estimators.base import Invariant
from invariance.fitting.adverse import adverse_headlines, names_of
from invariance.fitting.assess import AssessedModel, Assessment, assess_model, predictions
from invariance.fitting.by_environment import Headline
from invariance.methods import METHODS
from invariance.methods.base import Method

ROUNDING = 1e-4
"""Scores that differ by less, relatively, are the same, and predictions that differ by less of their range."""


def assess(
    estimator: Invariant,
    rows: Rows,
    test: Rows | None,
    columns: Sequence[tuple[str, slice]],
    threshold: float = 0.5,
) -> Assessment:
    """Assess a fitted estimator and its baseline, each trained again with environments left out in turn."""
    classes = hasattr(estimator, "classes_")
    headline = Headline.of(estimator.metric, classes=classes, threshold=threshold)
    assessed = partial(assess_model, rows=rows, test=test, columns=columns, headline=headline)
    fitted = {estimator.method_.title: estimator}
    if method := _baseline(estimator):
        fitted[method.title] = _fit(estimator, method, rows)
    models = [assessed(title, one, partial(_fit, estimator, one.method_)) for title, one in fitted.items()]
    erm = fitted.get(defaults.named("erm").title, estimator)
    adverse = adverse_headlines(list(fitted.values()), erm, rows, headline)
    if adverse:
        models = [replace(model, adverse=value) for model, value in zip(models, adverse[1], strict=True)]
    parts = rows.parts or columns
    names, counts = np.unique(rows.y, return_counts=True) if classes else ((), np.zeros(0, dtype=int))
    found = list(zip(map(str, names), counts.tolist(), strict=True))
    if len(found) == 2 and str(estimator.positive_) == found[0][0]:
        found.reverse()
    return Assessment(
        models[0],
        models[1] if len(models) > 1 else None,
        estimator.choice_.reason if estimator.choice_ else "",
        tuple(found),
        len(rows),
        len(estimator.environments_),
        headline,
        names_of([i for column in adverse[0].columns for i in column], parts) if adverse else None,
        adverse[0].p_value if adverse else None,
        names_of(estimator.left_out_, parts),
        rows.unit,
        len(models) > 1 and _scores_agree(models) and _predictions_agree(list(fitted.values()), rows),
    )


def _scores_agree(models: Sequence[AssessedModel]) -> bool:
    """Whether every metric of two models is the same everywhere: in training, left out and in test data."""
    own, other = ([score for part in m.parts.values() for score in part] for m in models)
    if [score.name for score in own] != [score.name for score in other]:
        return False
    own_values, other_values = ([list(score.values.values()) for score in each] for each in (own, other))
    return np.allclose(own_values, other_values, rtol=ROUNDING, atol=0, equal_nan=True)


def _predictions_agree(fitted: Sequence[Invariant], rows: Rows) -> bool:
    own, other = (predictions(model, rows.x) for model in fitted)
    return bool(np.abs(own - other).max() <= ROUNDING * np.ptp(own))


def _baseline(estimator: Invariant) -> Method | None:
    """ERM; where the model is ERM itself, the best invariant method; None with one environment.

    Where no candidates were compared, that is Env-PoE, or REx with many environments: a posterior of each row over a
    thousand of them would take gigabytes.
    """
    if len(estimator.environments_) < 2:
        return None
    erm = defaults.named("erm")
    if estimator.method_.title != erm.title:
        return METHODS.create("erm", {"l2": getattr(estimator.method_, "l2", defaults.FIELDS["l2"])})
    candidates = estimator.choice_.candidates if estimator.choice_ else ()
    invariant = [candidate for candidate in candidates if candidate.method.title != erm.title]
    if invariant:
        return min(invariant, key=lambda c: c.adverse_risk).method
    return defaults.named("env-poe" if len(estimator.environments_) <= defaults.MAX_ENVIRONMENTS else "rex")


def _fit(estimator: Invariant, method: Method, rows: Rows) -> Invariant:
    again: Invariant = clone(estimator).set_params(method=method, hidden=estimator.hidden_)
    return again.fit_rows(rows)
