"""Synthetic shifts whose target is a class: tables of `benchmarks/shifts.py`.

Two columns carry what is invariant; further ones are cues that name the label and are wrong at a rate that depends on
the environment, and at test mostly.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from invariance.core.environment import Benchmark, Environment
from invariance.core.families import Bernoulli, Categorical, Family, Gaussian

Array = NDArray[np.float64]
Random = np.random.Generator
Generate = Callable[[Random], Benchmark]
G = TypeVar("G", bound=Generate)
FLIPPED = 0.9
"""How often a cue is wrong at test."""
NOTHING, REVERSED = "nothing is spurious", "a single cue flips"

SHIFTS: dict[str, tuple[str, Generate]] = {}
"""What the shift is a case of, and its generator, by name."""


def environment(
    random: Random,
    name: str,
    cues: Sequence[float | Sequence[float]],
    *,
    rows: int = 5000,
    prior: Sequence[float] = (0.5, 0.5),
    mean: float | None = None,
) -> Environment:
    """Two invariant columns, then one cue for each rate of error: one number, or one per class.

    Without ``mean`` the invariant columns follow from the label. With it they are causes of the label, of two classes,
    and have this mean.
    """
    labels = len(prior)
    if mean is None:
        y = random.choice(labels, rows, p=prior)
        angle = 2 * np.pi * y / labels
        centre = np.stack([np.cos(angle), np.sin(angle)], 1) * (0.6 if labels == 2 else 1.2)
        invariant = centre + random.normal(size=(rows, 2))
    else:
        invariant = mean + random.normal(size=(rows, 2))
        y = (random.random(rows) < 1 / (1 + np.exp(-1.5 * invariant[:, 0]))).astype(int)
    columns = [invariant]
    for rates in cues:
        wrong = random.random(rows) < np.broadcast_to(np.asarray(rates), labels)[y]
        named = np.where(wrong, (y + random.integers(1, labels, rows)) % labels, y)
        columns.append(np.eye(labels)[named][:, 1:] * 2 - 1 + 0.1 * random.normal(size=(rows, labels - 1)))
    return made(name, np.concatenate(columns, 1), y)


def made(name: str, x: Array, y: NDArray[Any]) -> Environment:
    """An environment of arrays."""
    inputs, targets = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    return Environment(name, inputs, targets)


def with_column(name: str, plain: Environment, column: Array) -> Environment:
    """The environment with one more column."""
    return Environment(name, torch.cat([numbers(plain), torch.tensor(column).float().unsqueeze(1)], 1), plain.y)


def numbers(environment: Environment) -> Tensor:
    """Its inputs, as a tensor."""
    assert isinstance(environment.x, Tensor)
    return environment.x


def shift(name: str, case: str = "") -> Callable[[G], G]:
    """Add a generator to the bench."""

    def add(generate: G) -> G:
        SHIFTS[name] = (case, generate)
        return generate

    return add


def benchmark(train: Sequence[Environment], test: Environment, labels: int = 2) -> Benchmark:
    """Training environments and one test."""
    family: Family = {0: Gaussian(), 2: Bernoulli()}.get(labels) or Categorical(labels)
    return Benchmark(family, tuple(train), test=(test,))


@shift("single cue", REVERSED)
def single_cue(random: Random, rates: Sequence[float] = (0.1, 0.2), rows: int = 5000) -> Benchmark:
    """One cue that is mostly right in training and mostly wrong at test."""
    train = [environment(random, f"e{i:02}", [rate], rows=rows) for i, rate in enumerate(rates)]
    return benchmark(train, environment(random, "test", [FLIPPED]))


shift("many environments", REVERSED)(partial(single_cue, rates=(0.02, 0.06, 0.1, 0.15, 0.2, 0.3), rows=2000))
shift("few rows", REVERSED)(partial(single_cue, rates=(0.1, 0.3), rows=1000))


@shift("label shift", REVERSED)
def label_shift(random: Random) -> Benchmark:
    """The share of the second class differs, too."""
    train = [environment(random, "a", [0.1], prior=(0.7, 0.3)), environment(random, "b", [0.2], prior=(0.3, 0.7))]
    return benchmark(train, environment(random, "test", [FLIPPED]))


@shift("causal column shifts", REVERSED)
def causal(random: Random) -> Benchmark:
    """The distribution of the label's causes differs, too."""
    train = [environment(random, "a", [0.1], mean=-0.5), environment(random, "b", [0.2], mean=0.5)]
    return benchmark(train, environment(random, "test", [FLIPPED], mean=0))


@shift("error by class", REVERSED)
def by_class(random: Random) -> Benchmark:
    """The cue's rate of error differs by class."""
    train = [environment(random, "a", [(0.02, 0.3)]), environment(random, "b", [(0.3, 0.2)])]
    return benchmark(train, environment(random, "test", [FLIPPED]))


@shift("class imbalance", REVERSED)
def imbalance(random: Random) -> Benchmark:
    """One class in five samples, everywhere."""
    train = [environment(random, f"e{i}", [rate], prior=(0.8, 0.2)) for i, rate in enumerate((0.1, 0.2))]
    return benchmark(train, environment(random, "test", [FLIPPED], prior=(0.8, 0.2)))


@shift("continuous cue", REVERSED)
def continuous(random: Random) -> Benchmark:
    """The cue is a number around ±1, of another spread in each environment."""

    def one(name: str, spread: float, sign: int = 1) -> Environment:
        plain = environment(random, name, [])
        cue = sign * (2 * plain.y.numpy() - 1) + spread * random.normal(size=len(plain))
        return with_column(name, plain, cue)

    return benchmark([one("a", 0.6), one("b", 1.0)], one("test", 0.8, -1))


@shift("environment known", REVERSED)
def known(random: Random) -> Benchmark:
    """One column tells the environment, as a scanner's frame does."""
    train = [marked(random, "a", 0.1, -1), marked(random, "b", 0.2, 1)]
    return benchmark(train, marked(random, "test", FLIPPED, 0))


def marked(random: Random, name: str, rate: float, mark: float) -> Environment:
    """An environment with a cue, and a column around ``mark``."""
    plain = environment(random, name, [rate])
    return with_column(name, plain, mark + 0.3 * random.normal(size=len(plain)))


@shift("sample weights", REVERSED)
def weights(random: Random) -> Benchmark:
    """Unweighted the cue is equally often wrong in both environments; weights say what it is."""

    def one(name: str, rate: float) -> Environment:
        plain = environment(random, name, [0.3])
        wrong = (numbers(plain)[:, 2] > 0) != (plain.y > 0)
        return replace(plain, weight=torch.where(wrong, rate / 0.3, (1 - rate) / 0.7))

    return benchmark([one("a", 0.1), one("b", 0.2)], environment(random, "test", [FLIPPED]))


@shift("five classes", REVERSED)
def five(random: Random, rates: Sequence[Sequence[float]] = ((0.1,), (0.3,))) -> Benchmark:
    """Five classes and one cue."""
    prior = (0.2,) * 5
    train = [environment(random, f"e{i}", rate, prior=prior) for i, rate in enumerate(rates)]
    return benchmark(train, environment(random, "test", [FLIPPED] * len(rates[0]), prior=prior), 5)


shift("five classes, two cues")(partial(five, rates=((0.2, 0.3), (0.35, 0.5))))


@shift("two cues")
def two_cues(random: Random, rates: Sequence[Sequence[float]] = ((0.1, 0.2), (0.2, 0.35))) -> Benchmark:
    """Two cues that fail together."""
    train = [environment(random, f"e{i}", rate) for i, rate in enumerate(rates)]
    return benchmark(train, environment(random, "test", [FLIPPED] * 2))


shift("cues trading places")(partial(two_cues, rates=((0.1, 0.3), (0.3, 0.1), (0.3, 0.3))))


@shift("covariate shift", NOTHING)
def covariate(random: Random) -> Benchmark:
    """The causes of the label are distributed differently; the label given them is the same."""
    train = [environment(random, "a", [], mean=-0.5), environment(random, "b", [], mean=0.5)]
    return benchmark(train, environment(random, "test", [], mean=0))


@shift("label shift alone", NOTHING)
def priors(random: Random) -> Benchmark:
    """The share of the classes differs, and nothing else."""
    train = [environment(random, "a", [], prior=(0.7, 0.3)), environment(random, "b", [], prior=(0.3, 0.7))]
    return benchmark(train, environment(random, "test", []))


@shift("no shift", NOTHING)
def nothing(random: Random) -> Benchmark:
    """A cue that is as often wrong everywhere, at test too."""
    return benchmark([environment(random, name, [0.15]) for name in "ab"], environment(random, "test", [0.15]))


@shift("known, nothing spurious", NOTHING)
def known_alone(random: Random) -> Benchmark:
    """One column tells the environment, and a cue is as often wrong everywhere."""
    train = [marked(random, name, 0.15, mark) for name, mark in (("a", -1), ("b", 1))]
    return benchmark(train, marked(random, "test", 0.15, 0))
