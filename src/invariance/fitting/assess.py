"""A fitted model and its baseline, evaluated in environments that they were not trained in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from invariance.core.environment import environment_folds
from invariance.core.errors import InvarianceError
from invariance.core.rows import Rows
from invariance.fitting.by_environment import (
    EnvironmentScore,
    Forecast,
    Probabilities,
    environment_scores,
    forecast,
    reliability,
)
from invariance.fitting.importance import PermutationImportance, permutation_importances, predicted_class

MAX_FOLDS, MAX_FOLDS_OF_LARGE_DATA = 10, 5
LARGE_DATA_ROWS = 20_000
"""From this number of rows on, environments are left out in fewer folds."""

Points = tuple[tuple[float, float, int], ...]


@dataclass(frozen=True)
class AssessedModel:
    """One model in its training environments, in each of them when it was left out of training, and in test data."""

    title: str
    known: tuple[EnvironmentScore, ...]
    new: tuple[EnvironmentScore, ...]
    test: tuple[EnvironmentScore, ...]
    reliability: Points
    importances: tuple[PermutationImportance, ...]

    @property
    def forecast(self) -> Forecast | None:
        """Accuracy in a new environment."""
        return forecast(self.new)

    def to_json(self) -> dict[str, Any]:
        """Plain data, under the keys that ``invariance fit --json`` has had from the start."""
        scores = {"known": self.known, "new": self.new, "test": self.test}
        return {
            "title": self.title,
            **{name: [score.to_json() for score in each] for name, each in scores.items()},
            "reliability": self.reliability,
            "leanings": [importance.to_json() for importance in self.importances],
        }


@dataclass(frozen=True)
class Assessment:
    """The model and its baseline: one of the two is ERM. With one environment there is no baseline."""

    model: AssessedModel
    baseline: AssessedModel | None
    reason: str
    """Why this method was chosen; empty if the user named it."""
    classes: tuple[tuple[str, int], ...]
    """Every class with its number of rows."""
    environments: int
    unit: str = "rows"
    """What samples are called, in the plural."""

    @property
    def both(self) -> tuple[AssessedModel, ...]:
        """The model, then its baseline."""
        return (self.model, self.baseline) if self.baseline else (self.model,)

    @property
    def erm(self) -> AssessedModel:
        """Whichever of the two is ERM."""
        return self.baseline if self.baseline and self.baseline.title == "ERM" else self.model

    @property
    def rows(self) -> int:
        """The number of training rows."""
        return sum(rows for _, rows in self.classes)

    def to_json(self) -> dict[str, Any]:
        """Plain data, under the keys that ``invariance fit --json`` has had from the start."""
        return {
            "model": self.model.to_json(),
            "rival": self.baseline.to_json() if self.baseline else None,
            "reason": self.reason,
            "classes": self.classes,
            "environments": self.environments,
            "unit": self.unit,
        }


Fit = Callable[[Rows], Any]
"""Trains a new classifier, with ``classes_`` and ``predict_proba``, on some rows."""


def assess_model(
    title: str,
    fitted: Any,
    fit: Fit,
    rows: Rows,
    test: Rows | None,
    columns: Sequence[tuple[str, slice]],
) -> AssessedModel:
    """Evaluate one model, and train it again once per fold of the environments.

    Permutation importance is measured for tables; images have no columns.
    """
    classes, x, codes = fitted.classes_, rows.x, rows.codes
    names = [str(name) for name in rows.names]
    y = np.searchsorted(classes, rows.y)
    p = fitted.predict_proba(x)
    left_out_p, predicted = left_out(fit, rows, classes)
    predict = predicted_class(fitted.predict_proba)
    return AssessedModel(
        title,
        environment_scores(p, y, codes, names),
        environment_scores(left_out_p[predicted], y[predicted], codes[predicted], names) if predicted.any() else (),
        _test_scores(fitted, test) if test else (),
        reliability(left_out_p[predicted], y[predicted]) if predicted.any() else reliability(p, y),
        permutation_importances(predict, x, y, codes, names, columns) if isinstance(x, np.ndarray) else (),
    )


def left_out(fit: Fit, rows: Rows, classes: NDArray[Any]) -> tuple[Probabilities, NDArray[np.bool_]]:
    """Probabilities of rows whose environment was left out of training, [n, classes], and which rows these are, [n].

    A fold is skipped where the rest cannot be trained on: one environment, or one class.
    """
    environments = len(rows.names)
    p = np.full((len(rows), len(classes)), np.nan)
    if environments < 3:
        return p, np.isfinite(p[:, 0])
    order = np.random.default_rng(0).permutation(environments).tolist()
    for fold in environment_folds(order, MAX_FOLDS if len(rows) < LARGE_DATA_ROWS else MAX_FOLDS_OF_LARGE_DATA):
        held_out = np.isin(rows.codes, fold)
        try:
            model = fit(rows.take(~held_out))
        except InvarianceError:
            continue
        p[held_out] = 0
        p[np.ix_(held_out, np.searchsorted(classes, model.classes_))] = model.predict_proba(rows.x[held_out])
    return p, np.isfinite(p[:, 0])


def _test_scores(fitted: Any, test: Rows) -> tuple[EnvironmentScore, ...]:
    """Rows of a class that is not in the training data count as errors."""
    index = np.searchsorted(fitted.classes_, test.y).clip(max=len(fitted.classes_) - 1)
    y = np.where(fitted.classes_[index] == test.y, index, len(fitted.classes_))
    return environment_scores(fitted.predict_proba(test.x), y, test.codes, [str(name) for name in test.names])
