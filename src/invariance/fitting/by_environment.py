"""Accuracy and calibration in every environment, and a forecast for a new one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from invariance.estimators.scorers import count_correct
from invariance.evaluation.scores import Scores

Probabilities = NDArray[np.floating[Any]]

CALIBRATION_BINS = 10


@dataclass(frozen=True)
class EnvironmentScore:
    """One model in one environment.

    ``accuracy`` has the 95 % interval ``low`` to ``high``. ``confidence`` is the mean probability of the predicted
    class, ``calibration_error`` the mean difference between confidence and accuracy in bins of equal confidence, and
    ``majority`` the accuracy of always predicting the most frequent class there.
    """

    name: str
    rows: int
    accuracy: float
    low: float
    high: float
    confidence: float
    calibration_error: float
    majority: float

    def to_json(self) -> dict[str, Any]:
        """Plain data, under the keys that ``invariance fit --json`` has had from the start."""
        return {
            "name": self.name,
            "rows": self.rows,
            "right": self.accuracy,
            "low": self.low,
            "high": self.high,
            "sure": self.confidence,
            "error": self.calibration_error,
            "chance": self.majority,
        }


EnvironmentScores = tuple[EnvironmentScore, ...]


@dataclass(frozen=True)
class Forecast:
    """Accuracy in a new environment: the mean over environments, and the 95 % prediction interval for one more."""

    mean: float
    low: float
    high: float


def environment_scores(
    p: Probabilities, y: NDArray[np.int64], codes: NDArray[np.int64], names: Sequence[str]
) -> tuple[EnvironmentScore, ...]:
    """Every environment with rows: probabilities [n, classes], labels [n] and environment codes [n] into ``names``."""
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(names)))
    parts = {name: rows for name, rows in zip(names, np.split(order, ends[:-1]), strict=True) if len(rows)}
    correct = p.argmax(1) == y
    scores = Scores.of_counts(*count_correct(correct, codes, names))
    return tuple(_score(name, scores, p[rows].max(1), correct[rows], y[rows]) for name, rows in parts.items())


def _score(
    name: str, scores: Scores, confidence: NDArray[Any], correct: NDArray[np.bool_], y: NDArray[np.int64]
) -> EnvironmentScore:
    low, high = (scores.intervals or {})[name]
    return EnvironmentScore(
        name,
        len(y),
        scores.by_environment[name],
        low,
        high,
        float(confidence.mean()),
        calibration_error(confidence, correct),
        float(np.bincount(y).max() / len(y)),
    )


def calibration_error(confidence: NDArray[Any], correct: NDArray[np.bool_]) -> float:
    """Σ_b n_b/n |mean confidence − accuracy| over bins b of equal width."""
    surplus = np.bincount(_bins(confidence), weights=confidence - correct, minlength=CALIBRATION_BINS)
    return float(np.abs(surplus).sum() / len(confidence))


def reliability(p: Probabilities, y: NDArray[np.int64]) -> tuple[tuple[float, float, int], ...]:
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


def forecast(scores: Sequence[EnvironmentScore]) -> Forecast | None:
    """From accuracies in left-out environments: m ± t₍₀.₉₇₅,ₑ₋₁₎ · s · √(1 + 1/E); None for fewer than two."""
    if len(scores) < 2:
        return None
    accuracies = [score.accuracy for score in scores]
    mean, e = fmean(accuracies), len(accuracies)
    half = float(student.ppf(0.975, e - 1)) * stdev(accuracies) * math.sqrt(1 + 1 / e)
    return Forecast(mean, max(mean - half, 0.0), min(mean + half, 1.0))
