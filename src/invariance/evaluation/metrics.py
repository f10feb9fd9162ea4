"""Metrics of predictions, with sample weights: what a model may be chosen by, and what a report shows.

Predictions are probabilities [n, K] for classes, and numbers [n] for regression. A metric that needs several classes,
or targets that differ, is NaN where there are none.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from invariance.core.errors import UnknownName

Array = NDArray[Any]
Weights = NDArray[np.float64] | None
MIN_PROBABILITY = 1e-15
"""So that the log loss stays finite."""
MEAN = "mean-"
"""What the name of a criterion begins with if it is an average over environments."""


@dataclass(frozen=True)
class Metric:
    """A number that says how good predictions are."""

    title: str
    value: Callable[[Array, Array, Weights], float]
    higher: bool = True
    """Whether more of it is better."""
    classes: bool = True
    """Whether it is for classes, or for numbers."""


def accuracy(p: Array, y: Array, weight: Weights = None) -> float:
    """The share of rows whose most probable class is the label."""
    return float(np.average(p.argmax(1) == y, weights=weight))


def log_loss(p: Array, y: Array, weight: Weights = None) -> float:
    """The mean of −log p of the label; a label that is no class of the model has probability 0."""
    known = y < p.shape[1]
    own = np.where(known, p[np.arange(len(y)), np.where(known, y, 0).astype(np.int64)], 0.0).astype(np.float64)
    return float(np.average(-np.log(own.clip(min=MIN_PROBABILITY)), weights=weight))


def auc(p: Array, y: Array, weight: Weights = None) -> float:
    """The area under the ROC curve; with more than two classes, the mean over classes, each against the rest."""
    return _by_class(roc_auc_score, p, y, weight)


def average_precision(p: Array, y: Array, weight: Weights = None) -> float:
    """The area under precision and recall; with more than two classes, the mean over classes."""
    return _by_class(average_precision_score, p, y, weight)


def rmse(predicted: Array, y: Array, weight: Weights = None) -> float:
    """The root of the mean squared error."""
    return math.sqrt(float(np.average((predicted - y) ** 2, weights=weight)))


def mae(predicted: Array, y: Array, weight: Weights = None) -> float:
    """The mean absolute error."""
    return float(np.average(np.abs(predicted - y), weights=weight))


def r2(predicted: Array, y: Array, weight: Weights = None) -> float:
    """1 less the mean squared error, in units of the targets' variance."""
    variance = float(np.average((y - np.average(y, weights=weight)) ** 2, weights=weight))
    return 1 - rmse(predicted, y, weight) ** 2 / variance if variance else math.nan


METRICS: Mapping[str, Metric] = {
    "log-loss": Metric("log loss", log_loss, higher=False),
    "accuracy": Metric("accuracy", accuracy),
    "auc": Metric("AUC", auc),
    "average-precision": Metric("average precision", average_precision),
    "rmse": Metric("RMSE", rmse, higher=False, classes=False),
    "mae": Metric("MAE", mae, higher=False, classes=False),
    "r2": Metric("R²", r2, classes=False),
}


@dataclass(frozen=True)
class Criterion:
    """What a model is chosen by: a metric in the worst case, or on average over environments.

    ``positive`` is the code of the positive class of two.
    """

    metric: Metric
    worst: bool
    positive: int = 1

    def __str__(self) -> str:
        """As messages name it."""
        return self.metric.title

    def cost(self, predicted: Array, y: Array, weight: Weights = None) -> float:
        """What is missing to 1 where more of the metric is better; a loss in units of the best constant's.

        Errors in the unit of the target are squared: a share of them then means what a share of a log loss means.
        """
        if self.positive == 0:
            predicted, y = positive_last(predicted, y)
        value = self.metric.value(predicted, y, weight)
        if self.metric.higher:
            return 1 - value
        relative = value / (self.metric.value(_constant(predicted, y, weight), y, weight) or 1.0)
        return relative if self.metric.classes else relative**2


def positive_last(predicted: Array, y: Array) -> tuple[Array, Array]:
    """Two classes in the other order; a label that is neither stays so."""
    return predicted[:, [1, 0]], np.where(y < 2, 1 - y, y)


def criterion(name: str, *, classes: bool, positive: int = 1) -> Criterion:
    """The criterion of this name: a metric in the worst case, or with ``mean-`` before it on average.

    ``"auto"`` is the log loss for classes, and the RMSE for numbers.
    """
    if name == "auto":
        name = "log-loss" if classes else "rmse"
    known = [key for key, metric in METRICS.items() if metric.classes == classes]
    if name.removeprefix(MEAN) not in known:
        kind = "metric for classes" if classes else "metric for numbers"
        raise UnknownName.of(kind, name, ["auto", *known, *(MEAN + key for key in known)])
    return Criterion(METRICS[name.removeprefix(MEAN)], not name.startswith(MEAN), positive)


def relative_risk(predicted: Array, y: Array, weight: Weights = None) -> float:
    """The mean loss, in units of the best constant's: the label's entropy, or the variance of numbers."""
    if predicted.ndim == 2:
        return Criterion(METRICS["log-loss"], worst=True).cost(predicted, y, weight)
    return 1 - r2(predicted, y, weight)


def _constant(predicted: Array, y: Array, weight: Weights) -> Array:
    """The best constant prediction for every row."""
    if predicted.ndim == 1:
        return np.full(len(y), np.average(y, weights=weight))
    shares = np.bincount(y.astype(np.int64), weights=weight, minlength=predicted.shape[1])
    return np.broadcast_to(shares / shares.sum(), predicted.shape)


def _by_class(score: Callable[..., float], p: Array, y: Array, weight: Weights) -> float:
    classes = (1,) if p.shape[1] == 2 else range(p.shape[1])
    present = [k for k in classes if 0 < (y == k).sum() < len(y)]
    if not present:
        return math.nan
    return float(np.mean([score(y == k, p[:, k], sample_weight=weight) for k in present]))
