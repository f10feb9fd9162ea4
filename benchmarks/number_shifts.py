"""Synthetic shifts whose target is a number: tables of `benchmarks/shifts.py`.

The number follows from one column, or that column from the number. Cues are the number with noise that depends on the
environment; at test they mostly have the other sign.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from class_shifts import NOTHING, REVERSED, Random, benchmark, made, shift, with_column

from invariance.core.environment import Benchmark, Environment


def number(
    random: Random,
    name: str,
    cues: Sequence[tuple[float, float]] = (),
    *,
    rows: int = 5000,
    mean: float = 0,
    causal: bool = True,
    curved: bool = False,
    noise: float = 1,
) -> Environment:
    """A number, two invariant columns, then one cue for each slope and spread: slope·y with noise of this spread.

    Of the invariant columns the first is a cause of the number, or, without ``causal``, follows from it. ``mean`` is
    that of the cause, or else of the number. ``curved`` is whether the cause works through a sine, and ``noise`` is
    what else the number, or its effect, depends on.
    """
    first = mean + random.normal(size=rows)
    second = (np.sin(2 * first) if curved else first) + noise * random.normal(size=rows)
    column, y = (first, second) if causal else (second, first)
    unrelated = random.normal(size=rows)
    columns = [slope * y + spread * random.normal(size=rows) for slope, spread in cues]
    return made(name, np.column_stack([column, unrelated, *columns]), y)


@shift("regression", REVERSED)
def regression(random: Random, spreads: Sequence[float] = (0.5, 1.0), rows: int = 5000, **options: Any) -> Benchmark:
    """The target is a number, and the cue is the target with noise; at test it has the other sign."""
    train = [number(random, f"e{i}", [(1, spread)], rows=rows, **options) for i, spread in enumerate(spreads)]
    return benchmark(train, number(random, "test", [(-1, 0.5)], **options), 0)


shift("regression, few rows", REVERSED)(partial(regression, rows=1000))
shift("regression, many environments", REVERSED)(partial(regression, spreads=(0.4, 0.5, 0.7, 0.9, 1.2, 1.5), rows=2000))
shift("regression, curved", REVERSED)(partial(regression, curved=True))


@shift("regression, label shift", REVERSED)
def number_label_shift(random: Random, cues: bool = True) -> Benchmark:
    """The number has another mean in each environment, too, and the invariant column follows from it."""
    train = [
        number(random, name, [(1, spread)] * cues, mean=mean, causal=False)
        for name, spread, mean in (("a", 0.5, -0.5), ("b", 1.0, 0.5))
    ]
    return benchmark(train, number(random, "test", [(-1, 0.5)] * cues, causal=False), 0)


@shift("regression, causal column shifts", REVERSED)
def number_causal(random: Random, cues: bool = True, curved: bool = False) -> Benchmark:
    """The number's cause has another mean in each environment, too."""
    train = [
        number(random, name, [(1, spread)] * cues, mean=mean, curved=curved)
        for name, spread, mean in (("a", 0.5, -0.5), ("b", 1.0, 0.5))
    ]
    return benchmark(train, number(random, "test", [(-1, 0.5)] * cues, curved=curved), 0)


@shift("regression, two cues")
def number_two_cues(random: Random) -> Benchmark:
    """Two cues, each better in one environment than in others."""
    spreads = ((0.5, 1.0), (1.0, 0.5), (1.0, 1.0))
    train = [number(random, f"e{i}", [(1, one), (1, two)]) for i, (one, two) in enumerate(spreads)]
    return benchmark(train, number(random, "test", [(-1, 0.5)] * 2), 0)


@shift("regression, environment known", REVERSED)
def number_known(random: Random, slope: float = -1, spreads: Sequence[float] = (0.5, 1.0)) -> Benchmark:
    """One column tells the environment."""

    def one(name: str, slope: float, spread: float, mark: float) -> Environment:
        plain = number(random, name, [(slope, spread)])
        return with_column(name, plain, mark + 0.3 * random.normal(size=len(plain)))

    train = [one("a", 1, spreads[0], -1), one("b", 1, spreads[1], 1)]
    return benchmark(train, one("test", slope, 0.5, 0), 0)


shift("regression, known, nothing spurious", NOTHING)(partial(number_known, slope=1, spreads=(0.5, 0.5)))
shift("regression, label shift alone", NOTHING)(partial(number_label_shift, cues=False))
shift("regression, covariate shift", NOTHING)(partial(number_causal, cues=False, curved=True))


@shift("regression, noise shifts", NOTHING)
def number_noise(random: Random) -> Benchmark:
    """The number depends on its cause alike, with more noise in one environment."""
    return benchmark([number(random, f"{n}", noise=n) for n in (0.5, 1.5)], number(random, "test"), 0)


@shift("regression, no shift", NOTHING)
def number_nothing(random: Random) -> Benchmark:
    """A cue that is the same everywhere, at test too."""
    return benchmark([number(random, name, [(1, 0.7)]) for name in "ab"], number(random, "test", [(1, 0.7)]), 0)
