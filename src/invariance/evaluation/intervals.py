r"""95 % confidence intervals of scores, from one method: Wilson's score interval.

An accuracy over independent rows is a binomial share, whose Wilson interval holds for few rows and for shares near 0
and 1 too. Averages, minima and differences of several such shares follow from their intervals (Newcombe 1998; Zou and
Donner 2008): with weights c_e, Σ c_e p_e − √Σ c_e² (p_e − l_e)² is the lower end. For scores that are no shares, such
as −MSE, the interval of a mean is m ± 1.96 s/√n.
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Interval = tuple[float, float]
Z = 1.96
"""The 97.5 % quantile of the normal distribution."""


def wilson(correct: float, rows: float) -> Interval:
    """Of the share ``correct / rows``."""
    share, z = correct / rows, Z**2 / rows
    middle = (share + z / 2) / (1 + z)
    half = Z * math.sqrt(share * (1 - share) / rows + z / (4 * rows)) / (1 + z)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def of_mean(values: NDArray[np.float64], weight: NDArray[np.float64] | None, *, share: bool) -> Interval:
    """Of the weighted mean of one score per row; ``share`` says that each is 0 or 1.

    Weighted rows count as (Σw)² / Σw² rows of equal weight (Kish).
    """
    w = np.ones_like(values) if weight is None else weight
    rows = float(w.sum() ** 2 / (w**2).sum())
    mean = float(np.average(values, weights=w))
    if share:
        return wilson(mean * rows, rows)
    half = Z * math.sqrt(float(np.average((values - mean) ** 2, weights=w)) / rows)
    return mean - half, mean + half


def of_summary(scores: Mapping[str, float], intervals: Mapping[str, Interval]) -> dict[str, Interval]:
    """Of ``mean``, ``worst`` and ``gap`` over environments, from the interval of each."""
    down = {name: score - intervals[name][0] for name, score in scores.items()}
    up = {name: intervals[name][1] - score for name, score in scores.items()}
    mean = sum(scores.values()) / len(scores)
    low, high = (math.sqrt(sum(d * d for d in side.values())) / len(scores) for side in (down, up))
    worst, best = min(scores, key=scores.__getitem__), max(scores, key=scores.__getitem__)
    gap = scores[best] - scores[worst]
    spread = (math.hypot(down[best], up[worst]), math.hypot(up[best], down[worst])) if best != worst else (0.0, 0.0)
    return {
        "mean": (mean - low, mean + high),
        "worst": (min(i[0] for i in intervals.values()), min(i[1] for i in intervals.values())),
        "gap": (max(gap - spread[0], 0.0), gap + spread[1]),
    }
