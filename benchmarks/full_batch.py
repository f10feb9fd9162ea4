"""What a step over all 50,000 rows costs, on Colored-MNIST's network (392-390-390-1) with two threads.

The *bound* is the five matrix products over all rows, in slices of 4,096. A step goes through the features in slices,
as the package does it; in slices whose activations are all computed again in the backward pass; or in one piece. By the
clock, so it needs a machine with nothing else to do, or ``--busy``. Memory is what a step adds at its peak (Linux).

Aim: at least 0.9 of the bound.
"""

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import torch
from harness import METHODS, Options, Precision, Step, bf16, environments, in_turns, run, show
from step import bound, difference, gradients

from invariance.training.loop import Training

ONE_PIECE, SLICE = sys.maxsize, 4096


class Slices(NamedTuple):
    """How a full batch goes through the features: rows per slice, and the number of rows whose activations are kept."""

    rows: int
    keep: int


HOW = {
    "one piece": Slices(ONE_PIECE, ONE_PIECE),
    "slices": Slices(SLICE, ONE_PIECE),
    "recomputed": Slices(SLICE, 0),
}
FULL = {f"{method}, {how}": (method, how) for method in ("irmv1", "irmv0", "fishr", "bloc-irm") for how in HOW}
SIZES = (50_000, 200_000)


def full(name: str, rows: int, precision: Precision = "full") -> Training:
    """A full-batch run of a method with these slices; IRMv1 reads outputs alone, the others the features too."""
    method, how = FULL[name]
    training = run(METHODS[method], environments([rows // 2] * 2), "full-batch", precision)
    training.model.slice, training.model.keep = HOW[how]
    return training


def status(field: str) -> float:
    """A line of Linux's account of this process, in MB."""
    return next(
        float(line.split()[1]) / 1024 for line in Path("/proc/self/status").read_text().splitlines() if field in line
    )


def memory(name: str, rows: int) -> float:
    """By how many MB a full-batch step raises the memory of this process at its peak; call it in a fresh one."""
    torch.set_num_threads(1)
    training = full(name, rows)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from now
    before = status("VmRSS")
    training.advance()
    return status("VmHWM") - before


def memories() -> dict[tuple[str, int], float]:
    """The same for all variants and sizes, each in a process of its own."""
    cells = [(name, rows) for name in FULL for rows in SIZES]
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        return dict(zip(cells, pool.map(memory, *zip(*cells, strict=True)), strict=True))


def products(rows: int) -> Step:
    """The bound: five products in slices over all rows."""
    whole, rest = bound(SLICE), bound(rows % SLICE)

    def all_slices() -> None:
        for _ in range(rows // SLICE):
            whole()
        rest()

    return all_slices


def main() -> None:
    options = Options.parse(__doc__)
    megabytes = memories()
    torch.set_num_threads(options.threads)
    runs = {name: full(name, SIZES[0]) for name in FULL}
    slopes = {name: gradients(training, training.data) for name, training in runs.items()}
    low = {f"{name} bf16": full(name, SIZES[0], "bf16") for name in FULL if name.endswith("slices") and bf16()}
    steps = {name: training.advance for name, training in (runs | low).items()}
    times = in_turns({"bound": products(SIZES[0]), **steps}, 1 if options.quick else 4, 1, options.clock)
    rows = [
        {
            "method": f"{METHODS[method].title}, {how}",
            "seconds": times.ms(name) / 1e3,
            "of the bound": times.ratio("bound", name),
            "time in bf16": times.ratio(f"{name} bf16", name) if f"{name} bf16" in steps else None,
            "gradients differ by": difference(slopes[name], slopes[f"{method}, one piece"]),
            **{f"MB, {size:,} rows": round(megabytes[name, size]) for size in SIZES},
        }
        for name, (method, how) in FULL.items()
    ]
    note = (
        f"{options.how}The five products take {times.ms('bound') / 1e3:.2f} s. MB: memory that a step adds at its peak."
    )
    show("One step over 50,000 rows", rows, note, options, "full-batch")


if __name__ == "__main__":
    main()
