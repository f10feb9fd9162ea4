"""What the engine costs, and what a second worker gives.

The same runs of a few seconds, on embedded data: one after another in this process, by the engine with one worker
and with two, each with its own store and checkpoints. In alternation, by wall time; ratios are medians over rounds. A
worker imports what it needs once for a whole study: that start, a first small run included, is shown separately.
"""

import tempfile
import time
from pathlib import Path
from statistics import median

import torch
from harness import Options, show

from invariance.experiments.engines import run_all
from invariance.experiments.run import execute
from invariance.experiments.spec import Spec


def plain(specs: list[Spec]) -> float:
    """Seconds for all runs, one after another, without the engine."""
    start = time.perf_counter()
    for spec in specs:
        execute(spec)
    return time.perf_counter() - start


def engine(specs: list[Spec], workers: int) -> tuple[float, float]:
    """Seconds until every worker has made a first small run, and from then on until all runs are in the store."""
    first = {spec.key: spec for spec in (digits(1, seed) for seed in range(100, 100 + workers))}
    with tempfile.TemporaryDirectory() as folder:
        start = begun = time.perf_counter()
        for event in run_all([*first.values(), *specs], Path(folder) / "runs.db", workers):
            if event.kind == "done" and event.spec.key in first:
                begun = time.perf_counter()
        return begun - start, time.perf_counter() - begun


def digits(epochs: int, seed: int) -> Spec:
    """Runs of one length, whatever the seed."""
    return Spec.of("colored-digits", "irmv1", "short", seed, {"recipe": {"epochs": epochs}})


def main() -> None:
    options = Options.parse(__doc__)
    torch.set_num_threads(1)
    specs = [digits(5 if options.quick else 30, seed) for seed in range(4)]
    execute(specs[0])  # what is imported and allocated once is not measured
    alone: list[float] = []
    starts: list[float] = []
    one: list[float] = []
    two: list[float] = []
    for _ in range(1 if options.quick else 3):
        alone.append(plain(specs))
        for workers, times in ((1, one), (2, two)):
            start, rest = engine(specs, workers)
            starts.append(start)
            times.append(rest)
    overhead = median(e / p - 1 for e, p in zip(one, alone, strict=True))
    gain = median(a / b for a, b in zip(one, two, strict=True))
    rows = [
        {"what": "a run without the engine, s", "measured": median(alone) / len(specs), "aim": ""},
        {"what": "the engine adds to a run, %", "measured": 100 * overhead, "aim": "less than 3"},
        {"what": "starting a worker (imports, a first small run), s", "measured": median(starts), "aim": ""},
        {"what": "two workers against one, times as fast", "measured": gain, "aim": "at least 1.8"},
    ]
    note = "By the clock; medians over rounds in which the three took turns."
    show("The local engine", rows, note, options, "engine")


if __name__ == "__main__":
    main()
