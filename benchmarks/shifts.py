"""Synthetic shifts between environments: test scores of ERM, of penalties and of Env-PoE on each.

    python benchmarks/shifts.py --seeds 3 [NAME ...]

Every shift is a small table. Two columns carry what is invariant; further ones are cues that name the label and are
wrong at a rate that depends on the environment, and at test mostly. Scores are accuracies in %, for regression 100·R².
"""

import argparse
import math
import statistics
import time
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
from invariance.evaluation.scores import outputs
from invariance.methods.profile import profile
from invariance.models.mlp import MLP
from invariance.training.train import train

Array = NDArray[np.float64]
Random = np.random.Generator
Generate = Callable[[Random], Benchmark]
G = TypeVar("G", bound=Generate)
METHODS = ("erm", "irmv1", "rex", "env-poe")
BATCH, UPDATES = 512, 400
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


def score(method_name: str, shift_name: str, seed: int) -> tuple[float, str]:
    """The test score of a small network, and what the run notes."""
    made = SHIFTS[shift_name][1](np.random.default_rng(seed))
    rows = sum(len(e) for e in made.train)
    epochs = math.ceil(UPDATES / math.ceil(rows / BATCH))
    changes = {"batch_size": BATCH, "epochs": epochs, "lr": 1e-2, "dropout": 0.0}
    if method_name == "env-poe":
        changes["debias"] = math.ceil(epochs / 3)
    method, recipe = profile(method_name, "short", changes={"recipe": changes})
    model = MLP(32, 1).build(made.input_shape, made.family.outputs, seed)
    *_, last = train(model, method, made.train, recipe, family=made.family, seed=seed, snapshots=1)
    test = made.test[0]
    f = outputs(last.model, test.x)
    if made.family.labels:
        return 100 * float(made.family.score(f, test.y).mean()), last.note
    return 100 * made.family.gain(f, test.y), last.note


def main() -> None:
    """A table in Markdown, one line per shift."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*SHIFTS, []], metavar="NAME")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--methods", nargs="*", default=METHODS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    print(f"| shift | {' | '.join(options.methods)} |\n|---|{'--:|' * len(options.methods)}")
    for name in options.names or SHIFTS:
        cells = []
        for method in options.methods:
            results = [score(method, name, seed) for seed in range(options.first, options.first + options.seeds)]
            undone = sum(bool(note) for _, note in results)
            mean = f"{statistics.mean(value for value, _ in results):.1f}"
            cells.append(mean + (f" (no offset in {undone} of {options.seeds})" if undone else ""))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print(f"\n{options.seeds} seeds, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
