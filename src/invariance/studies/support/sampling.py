r"""What drawing test environments does to an average and a gap.

Accuracy over β is a line, acc(β) = (1 − β) A₁ + β A₀, with A₁ and A₀ the accuracies where the spurious bit agrees and
disagrees with the label. Over environments symmetric about ½ whose β span s,

    average = (A₁ + A₀)/2,   gap = s·|A₁ − A₀|,   so   A₀, A₁ = average ∓ gap/(2s),

and a pair of average and gap is possible only if both lie between 0 and 100 %. A drawn environment adds binomial noise.
"""

from functools import cache
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from invariance.core.environment import BETAS

IMAGES = 10_000
"""In a test environment: as many as the test file of MNIST has."""
SPAN = BETAS[-1] - BETAS[0]


class Ends(NamedTuple):
    """A₀ and A₁, in %."""

    oppose: float
    agree: float


class Spread(NamedTuple):
    """Mean and standard deviation of a random number."""

    mean: float
    std: float


def ends(average: float, gap: float) -> Ends:
    """The accuracies that an average and a gap imply, possible or not."""
    return Ends(average - gap / (2 * SPAN), average + gap / (2 * SPAN))


def ends_noise(average: float, gap: float, images: int = IMAGES) -> float:
    """The standard deviation, in points, of an implied accuracy when every environment is drawn once.

    It is taken at the nearest line that is possible, which is steep, so its two ends are the extremes.
    """
    oppose, agree = (min(max(end, 0.0), 100.0) / 100 for end in ends(average, gap))
    p = np.array([(1 - beta) * agree + beta * oppose for beta in BETAS])
    weights = np.full(len(BETAS), 1 / len(BETAS))
    weights[0] -= 1 / (2 * SPAN)
    weights[-1] += 1 / (2 * SPAN)
    variance = p * (1 - p) / images
    return 100 * sqrt(max((weights**2 * variance).sum(), (weights[::-1] ** 2 * variance).sum()))


@cache
def normal_range(count: int) -> Spread:
    """Of the range of ``count`` independent standard normal numbers, by integration.

    With F(x, y) = P(all between x and y): E R = ∫ 1 − P(all above x) − P(all below x) dx, and E R² twice the
    integral of 1 − P(all above x) − P(all below y) + F(x, y) over x < y.
    """
    x, step = np.linspace(-8, 8, 401, retstep=True)
    below = np.array([NormalDist().cdf(float(v)) for v in x])
    first = step * (1 - below**count - (1 - below) ** count).sum()
    low, high = below[:, None], below[None, :]
    both = 1 - (1 - low) ** count - high**count + np.maximum(high - low, 0.0) ** count
    second = 2 * step**2 * (np.triu(both, 1).sum() + np.diag(both).sum() / 2)
    return Spread(float(first), sqrt(float(second) - float(first) ** 2))


def gap_floor(average: float, images: int = IMAGES) -> Spread:
    """The gap, in points, that drawing gives a predictor as accurate in one environment as in every other."""
    share = min(max(average / 100, 0.0), 1.0)
    one = 100 * sqrt(share * (1 - share) / images)
    return Spread(*(one * value for value in normal_range(len(BETAS))))
