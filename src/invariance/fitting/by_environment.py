"""Accuracy and calibration in every environment, and what they let expect of a new one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

Probabilities = NDArray[np.floating[Any]]

BINS = 10
NORMAL = 1.96


@dataclass(frozen=True)
class Site:
    """One model in one environment.

    ``right`` is its accuracy with a 95 % interval, ``sure`` the mean probability it gives its own answers, ``error``
    how far the two are apart within groups of equal certainty, ``chance`` the accuracy of always naming the most
    frequent class there.
    """

    name: str
    rows: int
    right: float
    low: float
    high: float
    sure: float
    error: float
    chance: float


@dataclass(frozen=True)
class Forecast:
    """Accuracy at a site that is not there yet: mean over sites, and the 95 % range for one more of them."""

    mean: float
    low: float
    high: float


def sites(
    p: Probabilities, y: NDArray[np.int64], environment: NDArray[np.int64], names: Sequence[str]
) -> tuple[Site, ...]:
    """Every environment with rows: probabilities [n, classes], labels [n] and environments [n] by their numbers."""
    order = np.argsort(environment, kind="stable")
    ends = np.cumsum(np.bincount(environment, minlength=len(names)))
    parts = np.split(order, ends[:-1])
    return tuple(_site(name, p[rows], y[rows]) for name, rows in zip(names, parts, strict=True) if len(rows))


def _site(name: str, p: Probabilities, y: NDArray[np.int64]) -> Site:
    right = p.argmax(1) == y
    low, high = wilson(int(right.sum()), len(y))
    sure = p.max(1)
    chance = np.bincount(y).max() / len(y)
    return Site(
        name, len(y), float(right.mean()), low, high, float(sure.mean()), calibration_error(sure, right), float(chance)
    )


def wilson(right: int, rows: int) -> tuple[float, float]:
    """The 95 % interval of a share, which holds for few rows and for shares near 0 and 1 too."""
    share, z = right / rows, NORMAL**2 / rows
    middle = (share + z / 2) / (1 + z)
    half = NORMAL * math.sqrt(share * (1 - share) / rows + z / (4 * rows)) / (1 + z)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def calibration_error(sure: NDArray[Any], right: NDArray[np.bool_]) -> float:
    """Σ_b n_b/n |mean sure − mean right| over bins of equal width."""
    place = np.minimum((sure * BINS).astype(np.int64), BINS - 1)
    surplus = np.bincount(place, weights=sure - right, minlength=BINS)
    return float(np.abs(surplus).sum() / len(sure))


def reliability(p: Probabilities, y: NDArray[np.int64]) -> tuple[tuple[float, float, int], ...]:
    """How sure, how often right, and how many rows, in each bin that has some."""
    sure, right = p.max(1), p.argmax(1) == y
    place = np.minimum((sure * BINS).astype(np.int64), BINS - 1)
    return tuple(
        (float(sure[place == b].mean()), float(right[place == b].mean()), int((place == b).sum()))
        for b in np.unique(place)
    )


def forecast(found: Sequence[Site]) -> Forecast | None:
    """From the accuracies at sites that were left out in turn: m ± t₍₀.₉₇₅,ₑ₋₁₎ · s · √(1 + 1/E); None for one site."""
    if len(found) < 2:
        return None
    each = [site.right for site in found]
    mean, e = fmean(each), len(each)
    half = float(student.ppf(0.975, e - 1)) * stdev(each) * math.sqrt(1 + 1 / e)
    return Forecast(mean, max(mean - half, 0.0), min(mean + half, 1.0))
