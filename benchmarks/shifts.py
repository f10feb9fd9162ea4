"""Synthetic shifts between environments: test scores of ERM, of the penalties and of Env-PoE on each.

    python benchmarks/shifts.py [NAME ...]

Every shift is a small table, with classes (`class_shifts.py`) or numbers (`number_shifts.py`) to predict. Scores are
accuracies in %, for numbers 100·R², means over seeds on which nothing was chosen. The best penalty of each line is
chosen by its test score, which nobody could do. *Without the cue* is ERM on the two invariant columns, which no method
can be expected to exceed where one cue is all that is spurious. With ``--quick``, one seed.

Aims: Env-PoE is within a point of the better of ERM and the best penalty, and ahead by ten where a single cue flips.
"""

import math
import multiprocessing
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import number_shifts  # noqa: F401  (adds its tables)
import numpy as np
import torch
from class_shifts import REVERSED, SHIFTS, numbers
from harness import METHODS, Options, parser, show
from rich.progress import track

from invariance.core.environment import Benchmark, Environment
from invariance.core.provenance import cores
from invariance.evaluation.scores import outputs
from invariance.methods.profile import profile
from invariance.models.mlp import MLP
from invariance.training.train import train

SEEDS = range(20, 25)
BATCH, UPDATES = 512, 400


class Candidate(NamedTuple):
    """A method by one of the recipes, with or without the cues."""

    method: str
    recipe: str = "short"
    cues: bool = True


ERM, WITHOUT_CUES, ENV_POE = Candidate("erm"), Candidate("erm", cues=False), Candidate("env-poe")
PENALTIES = [Candidate(name, recipe) for name in METHODS if name != "erm" for recipe in ("short", "two-phase")]
CANDIDATES = [ERM, WITHOUT_CUES, ENV_POE, *PENALTIES]


def without_cues(made: Benchmark) -> Benchmark:
    """The two invariant columns, which come first in every table."""

    def one(environment: Environment) -> Environment:
        return replace(environment, x=numbers(environment)[:, :2])

    return replace(made, train=tuple(map(one, made.train)), test=tuple(map(one, made.test)))


def score(shift: str, candidate: Candidate, seed: int) -> tuple[float, str]:
    """The test score of a small network, and what the run notes."""
    made = SHIFTS[shift][1](np.random.default_rng(seed))
    if not candidate.cues:
        made = without_cues(made)
    rows = sum(len(e) for e in made.train)
    epochs = math.ceil(UPDATES / math.ceil(rows / BATCH))
    changes = {"batch_size": BATCH, "epochs": epochs, "lr": 1e-2, "dropout": 0.0}
    if candidate == ENV_POE:
        changes["debias"] = math.ceil(epochs / 3)
    method, recipe = profile(candidate.method, candidate.recipe, changes={"recipe": changes})
    model = MLP(32, 1).build(made.input_shape, made.family.outputs, seed)
    *_, last = train(model, method, made.train, recipe, family=made.family, seed=seed, snapshots=1)
    test = made.test[0]
    f = outputs(last.model, test.x)
    if made.family.labels:
        return 100 * float(made.family.score(f, test.y).mean()), last.note
    return 100 * made.family.gain(f, test.y), last.note


def line(shift: str, seeds: Sequence[int], pool: ProcessPoolExecutor) -> dict[str, Any]:
    """A row of the table."""
    runs = [(shift, candidate, seed) for candidate in CANDIDATES for seed in seeds]
    results = dict(zip(runs, pool.map(score, *zip(*runs, strict=True)), strict=True))
    means = {each: statistics.mean(results[shift, each, seed][0] for seed in seeds) for each in CANDIDATES}
    best = max(PENALTIES, key=means.__getitem__)
    return {
        "shift": shift,
        "ERM": means[ERM],
        **{METHODS[name].title: means[Candidate(name)] for name in ("irmv1", "rex")},
        f"best of {len(PENALTIES)}": means[best],
        "which": f"{METHODS[best.method].title}, {best.recipe}",
        "Env-PoE": means[ENV_POE],
        "no offset, seeds": sum(bool(results[shift, ENV_POE, seed][1]) for seed in seeds) or None,
        "without the cue": means[WITHOUT_CUES] if SHIFTS[shift][0] == REVERSED else None,
    }


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """How the lines compare with the aims."""

    def ahead(name: str, row: dict[str, Any]) -> float:
        return float(row[name] - max(row["ERM"], row[f"best of {len(PENALTIES)}"]))

    near = [row for row in rows if ahead("Env-PoE", row) >= -1]
    single = [row for row in rows if row["without the cue"] is not None]
    far = {name: sum(ahead(name, row) >= 10 for row in single) for name in ("Env-PoE", "without the cue")}
    return (
        f"Env-PoE is at most a point behind in {len(near)} of {len(rows)} lines. Where a single cue flips "
        f"({len(single)} lines), it is ahead by ten points in {far['Env-PoE']}; a model without the cue is in "
        f"{far['without the cue']}."
    )


def main() -> None:
    reader = parser(__doc__)
    reader.add_argument("names", nargs="*", choices=[*SHIFTS, []], metavar="NAME", help="these alone, not for the page")
    options = Options.of(read := reader.parse_args())
    seeds = SEEDS[: 1 if options.quick else None]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores(), spawn, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        rows = [line(name, seeds, pool) for name in track(read.names or list(SHIFTS), "Shifts")]
    show("Synthetic shifts", rows, summary(rows), options, "" if read.names else "shifts")


if __name__ == "__main__":
    main()
