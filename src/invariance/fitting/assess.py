"""A fitted model and its baseline, evaluated in environments that they were not trained in."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from invariance.core.environment import environment_folds
from invariance.core.errors import InvarianceError
from invariance.core.html import html_table
from invariance.core.rows import Rows
from invariance.estimators.base import Invariant
from invariance.fitting.by_environment import (
    EnvironmentScores,
    Forecast,
    Headline,
    Predictions,
    environment_scores,
    forecast,
    reliability,
)
from invariance.fitting.importance import PermutationImportance, permutation_importances, predicted_class

MAX_FOLDS, MAX_FOLDS_OF_LARGE_DATA = 10, 5
LARGE_DATA_ROWS = 20_000
"""From this number of rows on, environments are left out in fewer folds."""

Points = tuple[tuple[float, float, int], ...]
Fit = Callable[[Rows], Invariant]
"""Trains a new estimator on some rows."""


@dataclass(frozen=True)
class AssessedModel:
    """One model in its training environments, in each of them when it was left out of training, and in test data.

    ``adverse`` is its headline at the adverse site, where effects that vary between environments turn against the
    model; None where no effect varies.
    """

    title: str
    known: EnvironmentScores
    new: EnvironmentScores
    test: EnvironmentScores
    reliability: Points = ()
    importances: tuple[PermutationImportance, ...] = ()
    adverse: float | None = None

    @property
    def parts(self) -> dict[str, EnvironmentScores]:
        """Its scores, by what was done with the environments."""
        return {"trained on": self.known, "left out": self.new, "test": self.test}

    def to_json(self) -> dict[str, Any]:
        """Plain data, under the keys that ``invariance fit --json`` has had from the start."""
        scores = {"known": self.known, "new": self.new, "test": self.test}
        return {
            "title": self.title,
            **{name: [score.to_json() for score in each] for name, each in scores.items()},
            "adverse": self.adverse,
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
    """Every class with its number of rows, the positive one of two last; none for numbers."""
    rows: int
    environments: int
    headline: Headline = field(default_factory=Headline)
    varying: tuple[str, ...] | None = None
    """Columns whose effects vary between environments, () where they have no names; None where none varies."""
    p_value: float | None = None
    """Of the test that no effect varies, corrected for the number of columns; None where none varies."""
    left_out: tuple[str, ...] = ()
    """Columns that the model does not use, wholly or in part."""
    unit: str = "rows"
    """What samples are called, in the plural."""
    same: bool = False
    """Whether both models have the same scores and predict the same for every row, but for rounding."""

    @property
    def positive(self) -> str | None:
        """The positive class of two."""
        return self.classes[1][0] if len(self.classes) == 2 else None

    @property
    def both(self) -> tuple[AssessedModel, ...]:
        """The model, then its baseline."""
        return (self.model, self.baseline) if self.baseline else (self.model,)

    @property
    def erm(self) -> AssessedModel:
        """The one of the two that is ERM."""
        return next((model for model in self.both if model.title == "ERM"), self.model)

    def forecast(self, model: AssessedModel) -> Forecast | None:
        """The headline of a model in a new environment that differs from these as they differ from each other."""
        return forecast(model.new, self.headline)

    def supported(self, model: AssessedModel) -> bool:
        """Whether the range of the forecast holds at the adverse site, too, if there is one."""
        at = self.forecast(model)
        if at is None or model.adverse is None:
            return at is not None
        return self.headline.gain(model.adverse, at.low if self.headline.metric.higher else at.high) >= 0

    def _repr_html_(self) -> str:
        columns = {f"{m.title}, {when}": part for m in self.both for when, part in m.parts.items() if part}
        by_name = [{score.name: score.headline for score in part} for part in columns.values()]
        names = dict.fromkeys(score.name for part in columns.values() for score in part)
        rows: list[tuple[str | float, ...]] = [
            (name, *(each.get(name, math.nan) for each in by_name)) for name in names
        ]
        at = {m.title: forecast(m.new, self.headline) for m in self.both}
        expected = [f"{title} {f.mean:.3f} ({f.low:.3f} to {f.high:.3f})" for title, f in at.items() if f]
        notes = f"At one more environment, with its 95 % range: {', '.join(expected)}." if expected else ""
        return html_table(("environment", *columns), rows, title=self.headline.metric.title, notes=notes)

    def to_json(self) -> dict[str, Any]:
        """Plain data, under the keys that ``invariance fit --json`` has had from the start."""
        return {
            "model": self.model.to_json(),
            "rival": self.baseline and self.baseline.to_json(),
            "reason": self.reason,
            "classes": self.classes,
            "positive": self.positive,
            "environments": self.environments,
            "metric": self.headline.name,
            "threshold": self.headline.threshold,
            "varying": self.varying,
            "p_value": self.p_value,
            "left_out": self.left_out,
            "unit": self.unit,
        }


def assess_model(
    title: str,
    fitted: Invariant,
    fit: Fit,
    rows: Rows,
    test: Rows | None,
    columns: Sequence[tuple[str, slice]],
    headline: Headline,
) -> AssessedModel:
    """Evaluate one model, and train it again once per fold of the environments.

    Permutation importance is measured for tables with classes; images have no columns.
    """
    names = [str(name) for name in rows.names]
    y, inside = targets(fitted, rows), predictions(fitted, rows.x)
    outside, predicted = left_out(fit, rows, fitted)
    new: EnvironmentScores = ()
    shown = inside, y
    if predicted.any():
        shown = outside[predicted], y[predicted]
        new = environment_scores(*shown, rows.codes[predicted], names, headline)
    classes = inside.ndim == 2
    importances: tuple[PermutationImportance, ...] = ()
    if classes and isinstance(rows.x, np.ndarray):
        predict = predicted_class(lambda x: predictions(fitted, x))
        importances = permutation_importances(predict, rows.x, y, rows.codes, names, columns)
    return AssessedModel(
        title,
        environment_scores(inside, y, rows.codes, names, headline),
        new,
        _test_scores(fitted, test, headline) if test else (),
        reliability(*shown) if classes else (),
        importances,
    )


def predictions(fitted: Invariant, x: Any) -> Predictions:
    """Probabilities, [n, classes], the positive class of two last; or numbers, [n]."""
    answers: Predictions = fitted.predict_rows(x)
    if not hasattr(fitted, "classes_"):
        return answers[:, 0]
    return answers[:, [1, 0]] if _first_is_positive(fitted) else answers


def targets(fitted: Invariant, rows: Rows) -> NDArray[Any]:
    """Codes of classes, or numbers; a class that was not trained on has a code beyond all others.

    Of two classes, the positive one is 1.
    """
    if not hasattr(fitted, "classes_"):
        return rows.y.astype(np.float64)
    index = np.searchsorted(fitted.classes_, rows.y).clip(max=len(fitted.classes_) - 1)
    own = 1 - index if _first_is_positive(fitted) else index
    return np.where(fitted.classes_[index] == rows.y, own, len(fitted.classes_))


def _first_is_positive(fitted: Invariant) -> bool:
    positive = getattr(fitted, "positive_", None)
    return bool(positive is not None and positive == fitted.classes_[0])


def left_out(fit: Fit, rows: Rows, fitted: Invariant) -> tuple[Predictions, NDArray[np.bool_]]:
    """Predictions for rows whose environment was left out of training, and which rows these are, [n].

    A fold is skipped where the rest cannot be trained on: one environment, or one class.
    """
    environments, predicted = len(rows.names), np.zeros(len(rows), dtype=bool)
    classes = getattr(fitted, "classes_", None)
    answers = np.zeros(len(rows) if classes is None else (len(rows), len(classes)))
    if environments < 3:
        return answers, predicted
    order = np.random.default_rng(0).permutation(environments).tolist()
    for fold in environment_folds(order, MAX_FOLDS if len(rows) < LARGE_DATA_ROWS else MAX_FOLDS_OF_LARGE_DATA):
        held_out = np.isin(rows.codes, fold)
        try:
            model = fit(rows.take(~held_out))
        except InvarianceError:
            continue
        predicted |= held_out
        if classes is None:
            answers[held_out] = predictions(model, rows.x[held_out])
        else:
            places = np.searchsorted(classes, model.classes_)
            answers[np.ix_(held_out, places)] = predictions(model, rows.x[held_out])
    return answers, predicted


def _test_scores(fitted: Invariant, test: Rows, headline: Headline) -> EnvironmentScores:
    """Rows of a class that is not in the training data count as errors."""
    names = [str(name) for name in test.names]
    return environment_scores(predictions(fitted, test.x), targets(fitted, test), test.codes, names, headline)
