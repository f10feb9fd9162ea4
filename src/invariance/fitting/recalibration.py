"""A fitted model recalibrated for one site, by a few labelled rows of it.

Outputs become a·f + b, with a > 0: what the model relies on stays, and its confidence and base rate move to those of
the site (Platt 1999; Guo et al. 2017). The fit is maximum a posteriori, with standard normal priors on log a and b, so
that few rows change little.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from invariance.core.errors import BadValue, DataError
from invariance.core.families import Bernoulli, Categorical, Family, Gaussian
from invariance.estimators.base import Invariant
from invariance.estimators.regressor import InvariantRegressor
from invariance.fitting.labels import LabelMatcher
from invariance.fitting.model import Fitted
from invariance.recipes.optimiser import LBFGS

MIN_ROWS = 20
"""With fewer rows, nothing can be said about a site."""
FOLDS = 5


class Scaling(NamedTuple):
    """a, and b [K]."""

    scale: float
    shift: Tensor

    def __call__(self, f: Tensor) -> Tensor:
        return self.scale * f + self.shift


class Recalibrated(NamedTuple):
    """The new model, the number of rows, and the mean loss before and after, by cross-validation."""

    fitted: Fitted
    rows: int
    before: float
    after: float


def recalibrate(fitted: Fitted, path: Path, notes: list[str]) -> Recalibrated:
    """The model with outputs scaled and shifted by the labelled rows of ``path``."""
    family = _family(fitted)
    f, y = _outputs(fitted, path, family, notes)
    if len(y) < MIN_ROWS:
        raise DataError(f"{path} has {len(y)} labelled {fitted.reader.unit}; give at least {MIN_ROWS}")
    if family.labels and len(y.unique()) < 2:
        only = fitted.classes[int(y[0])]
        raise DataError(
            f"all labelled {fitted.reader.unit} of {path} are of the class {str(only)!r}, which does not say how often "
            f"it occurs there; give {fitted.reader.unit} as they come, of at least two classes"
        )
    before, after = float(family.loss(f, y).mean()), _cross_validated(f, y, family)
    if not after < before:
        raise BadValue(
            f"recalibration on {path} does not help: the mean loss is {before:.4f} without it and {after:.4f} with it, "
            f"by {FOLDS}-fold cross-validation; use the model as it is, or give more {fitted.reader.unit}"
        )
    estimator = deepcopy(fitted.estimator)
    _apply(_fitted(f, y, family), estimator)
    return Recalibrated(replace(fitted, estimator=estimator), len(y), before, after)


def _family(fitted: Fitted) -> Family:
    if isinstance(fitted.estimator, InvariantRegressor):
        return Gaussian()
    return Bernoulli() if len(fitted.classes) == 2 else Categorical(len(fitted.classes))


def _outputs(fitted: Fitted, path: Path, family: Family, notes: list[str]) -> tuple[Tensor, Tensor]:
    """f [n, K] and targets [n] of all labelled rows, in double precision."""
    parts = list(_parts(fitted, path, notes))
    if not parts:
        raise DataError(f"{path} has no labelled {fitted.reader.unit}")
    answers, labels = (torch.from_numpy(np.concatenate(each)) for each in zip(*parts, strict=True))
    estimator = fitted.estimator
    if isinstance(estimator, InvariantRegressor):
        mean, scale = estimator.target_mean_, estimator.target_scale_
        return (answers - mean) / scale, (labels - mean) / scale
    logits = answers.clamp(min=torch.finfo(answers.dtype).tiny).log()
    return logits[:, 1:] - logits[:, :1] if family.outputs == 1 else logits, labels


def _parts(fitted: Fitted, path: Path, notes: list[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Answers [n, K] and targets [n] in batches: codes of classes, or numbers."""
    matcher = LabelMatcher(fitted.classes)
    for rows in fitted.reader.labelled(path, None, notes):
        if len(rows):
            labels = matcher.codes(rows.y, path) if fitted.classes else rows.y
            yield (
                fitted.estimator.predict_rows(rows.x),
                labels.astype(np.float64 if len(fitted.classes) < 3 else np.int64),
            )
    notes += matcher.notes


def _fitted(f: Tensor, y: Tensor, family: Family) -> Scaling:
    log_scale = torch.zeros((), dtype=f.dtype, requires_grad=True)
    shift = torch.zeros(f.shape[1], dtype=f.dtype, requires_grad=True)
    steps = LBFGS([log_scale, shift], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> float:
        steps.zero_grad()
        prior = 0.5 * (log_scale.square() + shift.square().sum())
        loss = family.loss(log_scale.exp() * f + shift, y).sum() + prior
        loss.backward()
        return float(loss.detach())

    with torch.enable_grad():
        steps.step(closure)  # type: ignore[no-untyped-call]
    return Scaling(float(log_scale.detach().exp()), shift.detach())


def _cross_validated(f: Tensor, y: Tensor, family: Family) -> float:
    """The mean loss of rows that the scaling was not fitted to."""
    total = 0.0
    for fold in range(FOLDS):
        held_out = torch.arange(len(y)) % FOLDS == fold
        scaling = _fitted(f[~held_out], y[~held_out], family)
        total += float(family.loss(scaling(f[held_out]), y[held_out]).sum())
    return total / len(y)


@torch.no_grad()
def _apply(scaling: Scaling, estimator: Invariant) -> None:
    """Scale and shift the head, or every head of an ensemble, whose mean is then scaled and shifted too."""
    for layer in estimator.module_.head.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.mul_(scaling.scale)
            layer.bias.mul_(scaling.scale).add_(scaling.shift.to(layer.bias))
