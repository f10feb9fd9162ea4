"""Synthetic shifts between environments: test scores of ERM, of penalties and of Env-PoE on each.

    python benchmarks/shifts.py --seeds 3 [NAME ...]

Every shift is a small table, with classes (`class_shifts.py`) or numbers (`number_shifts.py`) to predict. Scores are
accuracies in %, for numbers 100·R². ``--methods no-cue`` is ERM on the two invariant columns, which no method can be
expected to exceed where cues are all that is spurious.
"""

import argparse
import math
import statistics
import time
from dataclasses import replace

import number_shifts  # noqa: F401  (adds its tables)
import numpy as np
import torch
from class_shifts import SHIFTS, numbers

from invariance.core.environment import Benchmark, Environment
from invariance.evaluation.scores import outputs
from invariance.methods.profile import profile
from invariance.models.mlp import MLP
from invariance.training.train import train

METHODS = ("erm", "irmv1", "rex", "env-poe")
NO_CUE = "no-cue"
BATCH, UPDATES = 512, 400


def without_cues(made: Benchmark) -> Benchmark:
    """The two invariant columns, which come first in every table."""

    def one(environment: Environment) -> Environment:
        return replace(environment, x=numbers(environment)[:, :2])

    return replace(made, train=tuple(map(one, made.train)), test=tuple(map(one, made.test)))


def score(method_name: str, shift_name: str, seed: int, name: str = "short") -> tuple[float, str]:
    """The test score of a small network, and what the run notes."""
    made = SHIFTS[shift_name][1](np.random.default_rng(seed))
    if method_name == NO_CUE:
        method_name, made = "erm", without_cues(made)
    rows = sum(len(e) for e in made.train)
    epochs = math.ceil(UPDATES / math.ceil(rows / BATCH))
    changes = {"batch_size": BATCH, "epochs": epochs, "lr": 1e-2, "dropout": 0.0}
    if method_name == "env-poe":
        changes["debias"] = math.ceil(epochs / 3)
    method, recipe = profile(method_name, name, changes={"recipe": changes})
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
    parser.add_argument("--recipe", default="short", help="short or two-phase, in batches and at a rate for tables")
    options = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    print(f"| shift | {' | '.join(options.methods)} |\n|---|{'--:|' * len(options.methods)}")
    for name in options.names or SHIFTS:
        cells = []
        for method in options.methods:
            seeds = range(options.first, options.first + options.seeds)
            results = [score(method, name, seed, options.recipe) for seed in seeds]
            undone = sum(bool(note) for _, note in results)
            mean = f"{statistics.mean(value for value, _ in results):.1f}"
            cells.append(mean + (f" (no offset in {undone} of {options.seeds})" if undone else ""))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print(f"\n{options.seeds} seeds, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
