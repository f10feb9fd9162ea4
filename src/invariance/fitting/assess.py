"""A fitted model and its rival, examined in environments that they were not trained in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from invariance.core.errors import InvarianceError
from invariance.estimators.rows import Rows
from invariance.fitting.by_environment import Forecast, Probabilities, Site, forecast, reliability, sites
from invariance.fitting.importance import Leaning, answers_of, leanings

FOLDS, FEW_FOLDS = 10, 5
MANY_ROWS = 20_000
"""From so many rows on, environments are left out in fewer parts."""

Points = tuple[tuple[float, float, int], ...]


@dataclass(frozen=True)
class Examined:
    """One model: at known sites, at each site when it was left out of training, at the sites of a test table."""

    title: str
    known: tuple[Site, ...]
    new: tuple[Site, ...]
    test: tuple[Site, ...]
    reliability: Points
    leanings: tuple[Leaning, ...]

    @property
    def forecast(self) -> Forecast | None:
        """Accuracy at a site that is not there yet."""
        return forecast(self.new)


@dataclass(frozen=True)
class Assessment:
    """The model, and beside it the one it was preferred to: one of the two is ERM. One environment has no rival."""

    model: Examined
    rival: Examined | None
    reason: str
    """Why this method was chosen, where it was."""
    classes: tuple[tuple[str, int], ...]
    """With their rows."""
    environments: int
    unit: str = "rows"
    """What samples are called."""

    @property
    def both(self) -> tuple[Examined, ...]:
        """The model, then its rival."""
        return (self.model, self.rival) if self.rival else (self.model,)

    @property
    def erm(self) -> Examined:
        """Whichever it is."""
        return self.rival if self.rival and self.rival.title == "ERM" else self.model

    @property
    def rows(self) -> int:
        """That the model was trained on."""
        return sum(many for _, many in self.classes)


Fit = Callable[[Rows], Any]
"""Trains a fresh model on some rows: something with ``classes_`` and ``predict_proba``."""


def examine(
    title: str,
    fitted: Any,
    fit: Fit,
    rows: Rows,
    test: Rows | None,
    columns: Sequence[tuple[str, slice]],
) -> Examined:
    """One model, with as many more trainings as there are parts of the environments to leave out.

    Columns are shuffled where there are some: images have none.
    """
    classes, x = fitted.classes_, rows.x
    names, e = _numbered(rows.environments)
    y = np.searchsorted(classes, rows.y)
    p = fitted.predict_proba(rows.x)
    new, there = left_out(fit, rows, e, len(names), classes)
    return Examined(
        title,
        sites(p, y, e, names),
        sites(new[there], y[there], e[there], names) if there.any() else (),
        _test_sites(fitted, test) if test else (),
        reliability(new[there], y[there]) if there.any() else reliability(p, y),
        leanings(answers_of(fitted.predict_proba), x, y, e, names, columns) if isinstance(x, np.ndarray) else (),
    )


def left_out(
    fit: Fit, rows: Rows, e: NDArray[np.int64], environments: int, classes: NDArray[Any]
) -> tuple[Probabilities, NDArray[np.bool_]]:
    """Probabilities for rows of environments that took no part in training, [n, classes], and which rows have some.

    A part of the environments is passed over where the rest cannot be trained on: one environment, or one class.
    """
    p = np.full((len(e), len(classes)), np.nan)
    if environments < 3:
        return p, np.isfinite(p[:, 0])
    order = np.random.default_rng(0).permutation(environments)
    folds = min(environments, FOLDS if len(e) < MANY_ROWS else FEW_FOLDS)
    part = np.empty(environments, np.int64)
    part[order] = np.arange(environments) % folds
    for fold in range(folds):
        held = part[e] == fold
        try:
            model = fit(rows[~held])
        except InvarianceError:
            continue
        p[held] = 0
        p[np.ix_(held, np.searchsorted(classes, model.classes_))] = model.predict_proba(rows.x[held])
    return p, np.isfinite(p[:, 0])


def _test_sites(fitted: Any, test: Rows) -> tuple[Site, ...]:
    """A class that was never seen in training is never right."""
    names, e = _numbered(test.environments)
    place = np.searchsorted(fitted.classes_, test.y).clip(max=len(fitted.classes_) - 1)
    y = np.where(fitted.classes_[place] == test.y, place, len(fitted.classes_))
    return sites(fitted.predict_proba(test.x), y, e, names)


def _numbered(environments: NDArray[Any]) -> tuple[list[str], NDArray[np.int64]]:
    """The environments there are, and which one each row is of."""
    names, numbers = np.unique(environments, return_inverse=True)
    return [str(name) for name in names], numbers
