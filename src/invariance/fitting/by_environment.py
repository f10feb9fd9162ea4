"""Metrics and calibration in every environment, and a forecast for a new one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from invariance.evaluation.intervals import Z, of_mean, wilson
from invariance.evaluation.metrics import MEAN, METRICS, Metric

Predictions = NDArray[np.floating[Any]]
"""Probabilities, [n, classes], or numbers, [n]."""

CALIBRATION_BINS = 10
REPLICATES = 40
"""Weighted bootstrap samples for the interval of a metric that is no mean over rows."""


@dataclass(frozen=True)
class Headline:
    """The metric that sentences are about, and the threshold for sensitivity and specificity.

    A row counts as positive if the probability of the second of two classes, which is the positive one, is at least
    ``threshold``.
    """

    name: str = "accuracy"
    threshold: float = 0.5

    @classmethod
    def of(cls, criterion: str, *, classes: bool, threshold: float = 0.5) -> "Headline":
        """The metric that a model was chosen by; accuracy, or RMSE for numbers, where that was left open."""
        name = ("accuracy" if classes else "rmse") if criterion == "auto" else criterion.removeprefix(MEAN)
        return cls(name, threshold)

    @property
    def metric(self) -> Metric:
        """The metric itself."""
        return METRICS[self.name]

    @property
    def share(self) -> bool:
        """Whether it lies between 0 and 1, and is shown in percent."""
        return self.name in ("accuracy", "auc", "average-precision")

    def gain(self, value: float, other: float) -> float:
        """How much better a value is than another."""
        return value - other if self.metric.higher else other - value

    def show(self, value: float) -> str:
        """In percent, or with three digits; never rounded up to 100 %."""
        if not self.share:
            return f"{value:.3g}"
        return f"{100 * value:.0f} %" if value < 0.995 or value == 1 else f"{100 * value:.1f} %"


@dataclass(frozen=True)
class EnvironmentScore:
    """One model in one environment: every metric by name, and the headline with its 95 % interval.

    ``constant`` is the headline of the best constant prediction there. For classes, ``values`` also has ``confidence``,
    the mean probability of the predicted class, and ``calibration-error``, the mean difference between confidence and
    accuracy in bins of equal confidence; for two classes, ``sensitivity`` and ``specificity``.
    """

    name: str
    rows: int
    headline: float
    low: float
    high: float
    constant: float
    values: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """Plain data, under the keys that ``invariance fit --json`` has had from the start, and every metric."""
        plain = {"name": self.name, "rows": self.rows, "low": self.low, "high": self.high, "chance": self.constant}
        for key, metric in (("right", "accuracy"), ("sure", "confidence"), ("error", "calibration-error")):
            if metric in self.values:
                plain[key] = self.values[metric]
        return {**plain, "metrics": {key: None if math.isnan(v) else v for key, v in self.values.items()}}


EnvironmentScores = tuple[EnvironmentScore, ...]


@dataclass(frozen=True)
class Forecast:
    """The headline in a new environment: the mean over environments, and the 95 % prediction interval for one more."""

    mean: float
    low: float
    high: float


def environment_scores(
    predicted: Predictions, y: NDArray[Any], codes: NDArray[np.integer[Any]], names: Sequence[str], headline: Headline
) -> EnvironmentScores:
    """Every environment with rows: predictions, targets [n] and environment codes [n] into ``names``."""
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(names)))
    parts = {name: rows for name, rows in zip(names, np.split(order, ends[:-1]), strict=True) if len(rows)}
    return tuple(_score(name, predicted[rows], y[rows], headline) for name, rows in parts.items())


def _score(name: str, predicted: Predictions, y: NDArray[Any], headline: Headline) -> EnvironmentScore:
    value = headline.metric.value(predicted, y, None)
    low, high = interval(predicted, y, headline)
    constant = headline.metric.value(_best_constant(predicted, y), y, None)
    return EnvironmentScore(name, len(y), value, low, high, constant, metric_values(predicted, y, headline.threshold))


def metric_values(predicted: Predictions, y: NDArray[Any], threshold: float) -> dict[str, float]:
    """Every metric of some predictions, by name."""
    classes = predicted.ndim == 2
    values = {key: metric.value(predicted, y, None) for key, metric in METRICS.items() if metric.classes == classes}
    if not classes:
        return values
    confidence, correct = predicted.max(1), predicted.argmax(1) == y
    values |= {"confidence": float(confidence.mean()), "calibration-error": calibration_error(confidence, correct)}
    if predicted.shape[1] == 2:
        positive = predicted[:, 1] >= threshold
        values |= {"sensitivity": _mean(positive[y == 1]), "specificity": _mean(~positive[y == 0])}
    return values


def _mean(values: NDArray[np.bool_]) -> float:
    return float(values.mean()) if len(values) else math.nan


def interval(predicted: Predictions, y: NDArray[Any], headline: Headline) -> tuple[float, float]:
    """The 95 % interval of the headline: Wilson's for accuracies, a bootstrap's deviation for all others."""
    if headline.name == "accuracy":
        return wilson(float((predicted.argmax(1) == y).sum()), len(y))
    if headline.name == "rmse":
        low, high = of_mean((predicted - y).astype(np.float64) ** 2, None, share=False)
        return math.sqrt(max(low, 0.0)), math.sqrt(high)
    rng, value = np.random.default_rng(0), headline.metric.value(predicted, y, None)
    draws = [headline.metric.value(predicted, y, rng.exponential(size=len(y))) for _ in range(REPLICATES)]
    half = Z * float(np.std(draws))
    bounds = (0.0, 1.0) if headline.share else (-math.inf, math.inf)
    return max(value - half, bounds[0]), min(value + half, bounds[1])


def _best_constant(predicted: Predictions, y: NDArray[Any]) -> Predictions:
    if predicted.ndim == 1:
        return np.full(len(y), y.mean(dtype=np.float64))
    shares = np.bincount(y.clip(max=predicted.shape[1] - 1), minlength=predicted.shape[1]) / len(y)
    return np.broadcast_to(shares, predicted.shape)


def calibration_error(confidence: NDArray[Any], correct: NDArray[np.bool_]) -> float:
    """Σ_b n_b/n |mean confidence − accuracy| over bins b of equal width."""
    surplus = np.bincount(_bins(confidence), weights=confidence - correct, minlength=CALIBRATION_BINS)
    return float(np.abs(surplus).sum() / len(confidence))


def reliability(p: Predictions, y: NDArray[Any]) -> tuple[tuple[float, float, int], ...]:
    """Mean confidence, accuracy and number of rows in each bin of confidence that has rows."""
    confidence, correct = p.max(1), p.argmax(1) == y
    bins = _bins(confidence)
    return tuple(
        (float(confidence[bins == b].mean()), float(correct[bins == b].mean()), int((bins == b).sum()))
        for b in np.unique(bins)
    )


def _bins(confidence: NDArray[Any]) -> NDArray[np.int64]:
    bins: NDArray[np.int64] = np.minimum((confidence * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    return bins


def forecast(scores: Sequence[EnvironmentScore], headline: Headline) -> Forecast | None:
    """From the headline in left-out environments: m ± t₍₀.₉₇₅,ₑ₋₁₎ · s · √(1 + 1/E); None for fewer than two."""
    values = [score.headline for score in scores if not math.isnan(score.headline)]
    if len(values) < 2:
        return None
    mean, e = fmean(values), len(values)
    half = float(student.ppf(0.975, e - 1)) * stdev(values) * math.sqrt(1 + 1 / e)
    least, most = (-math.inf if headline.name == "r2" else 0.0), (1.0 if headline.share else math.inf)
    return Forecast(mean, max(mean - half, least), min(mean + half, most))


def mean_of(scores: Sequence[EnvironmentScore], metric: str | None = None) -> float:
    """The mean over environments of the headline, or of another metric; NaN where none has it."""
    values = [score.headline if metric is None else score.values.get(metric, math.nan) for score in scores]
    values = [value for value in values if not math.isnan(value)]
    return fmean(values) if values else math.nan


def worst_of(scores: Sequence[EnvironmentScore], headline: Headline) -> EnvironmentScore:
    """The environment where the headline is worst."""
    known = [score for score in scores if not math.isnan(score.headline)] or list(scores)
    return min(known, key=lambda score: headline.gain(score.headline, 0.0))
