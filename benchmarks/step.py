"""What a training step costs, on Colored-MNIST's network (392-390-390-1) with one thread.

Batches of 1,024 (two environments, drawn from 50,000 random rows, drawing included), after the switch. Each
method's step is timed in alternation with

  bound   the five matrix products that such a step cannot do without: two forward, three backward;
  loop    the same step written straightforwardly (straightforward.py): a loop over environments, a second
          backward pass for the penalty, l2 through autograd, unfused Adam. Both compute the same gradient,
          which is checked first.

Aims: at least 0.85 of the bound and 1.35 times as fast as the loop, for methods that make one move per step.

The second table is the step over all rows at once: in slices, as the package does it, and in slices whose activations
are all computed again in the backward pass, against one piece. Memory is what a step adds at its peak (Linux).
"""

import multiprocessing
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import straightforward
import torch
from harness import INPUTS, METHODS, Options, Step, environments, in_turns, run, show
from torch import Tensor

from invariance.core.batch import Batch
from invariance.core.environment import Environment
from invariance.core.inputs import floats
from invariance.core.seeding import generator
from invariance.methods.base import AnnealedMethod, Method
from invariance.methods.birm import BIRM
from invariance.methods.erm import ERM
from invariance.recipes.schedules import Clock
from invariance.training.loop import Training

BATCH, WIDTH, ROWS = 1024, 390, 50_000
ONE_PIECE = sys.maxsize
COSTS = (
    "sparse-irm draws noise, masks and updates two numbers per weight (weight and score), and projects the scores; "
    "irm-game passes the features twice and moves three players. Both do more than the five products."
)


def bound() -> Step:
    """The five products, on operands of a step's sizes."""
    x, h, d1, d2 = (torch.randn(BATCH, size) for size in (INPUTS, WIDTH, WIDTH, WIDTH))
    w1, w2 = torch.randn(WIDTH, INPUTS), torch.randn(WIDTH, WIDTH)

    def products() -> tuple[Tensor, ...]:
        return x @ w1.T, h @ w2.T, d2.T @ h, d2 @ w2, d1.T @ x

    return products


def weights(objective: Method, clock: Clock) -> straightforward.Weights:
    """The weights with which the loop computes the same loss."""
    if isinstance(objective, AnnealedMethod):
        return straightforward.Weights(objective.gamma_at(clock), objective.l2, objective.divisor(clock))
    assert isinstance(objective, ERM)
    return straightforward.Weights(0.0, objective.l2, 1.0)


def clock_of(training: Training) -> Clock:
    return Clock(training.step, training.steps, training.switch)


def loop(name: str, data: Sequence[Environment]) -> straightforward.Loop:
    """The straightforward run of a method."""
    training = run(METHODS[name], data, "small-batch")
    evaluate = straightforward.METHODS[name]
    return straightforward.Loop(
        evaluate, training.model, data, weights(METHODS[name], clock_of(training)), BATCH // len(data)
    )


def gradients(training: Training, batch: Batch) -> list[Tensor]:
    """The gradient of a run's one move, l2 included, by every parameter that moves."""
    noise = generator(0, "check")
    move = next(training.method.moves(training.model, batch, clock_of(training), noise))
    moving = [p for player in training.players.values() for p in player.parameters]
    slopes = torch.autograd.grad(move.loss(), moving)
    return [g + 2 * move.l2 * p.detach() for g, p in zip(slopes, moving, strict=True)]


def difference(a: Sequence[Tensor], b: Sequence[Tensor]) -> float:
    """The largest difference in any parameter tensor, over the largest entry there."""
    return max(float((u - v).abs().max() / v.abs().max()) for u, v in zip(a, b, strict=True))


def check(name: str, data: Sequence[Environment]) -> float:
    """The difference between our gradient and the loop's on one batch."""
    fixed = {"birm": (BIRM(tau=0.0), straightforward.birm(0.0))}  # nothing random to disagree about
    objective, evaluate = fixed.get(name, (METHODS[name], straightforward.METHODS[name]))
    training = run(objective, data, "small-batch")
    batch = Batch.of([Environment(e.name, e.x[:512], e.y[:512]) for e in data], training.data.family)
    ours = gradients(training, batch)
    moving = training.model.features if name == "bloc-irm" else training.model
    parts = [(floats(batch.x[batch.rows(e)]), batch.y[batch.rows(e)]) for e in range(len(data))]
    value = straightforward.total(evaluate, training.model, parts, weights(objective, clock_of(training)), moving)
    return difference(ours, torch.autograd.grad(value, list(moving.parameters())))


def small_batch(options: Options) -> None:
    """The first table."""
    data = environments([ROWS // 2] * 2)
    differences = {name: check(name, data) for name in straightforward.METHODS}
    assert max(differences.values()) < 1e-2, f"ours and the loop differ: {differences}"
    ours: dict[str, Step] = {name: run(objective, data, "small-batch").advance for name, objective in METHODS.items()}
    loops: dict[str, Step] = {f"{name} loop": loop(name, data) for name in straightforward.METHODS}
    times = in_turns({"bound": bound(), **ours, **loops}, 4 if options.quick else 40)
    rows: list[dict[str, object]] = [{"method": "bound", "ms": times.ms("bound"), "of the bound": 1.0}]
    for name in ours:
        row: dict[str, object] = {"method": name, "ms": times.ms(name), "of the bound": times.ratio("bound", name)}
        if f"{name} loop" in loops:
            row |= {
                "loop, ms": times.ms(f"{name} loop"),
                "times faster than the loop": times.ratio(f"{name} loop", name),
                "gradients differ by": differences[name],
            }
        rows.append(row)
    blank: dict[str, object] = dict.fromkeys([key for row in rows for key in row])
    show("One step of 1,024 rows, one thread", [blank | row for row in rows], COSTS, options)


class Slices(NamedTuple):
    """How a full batch goes through the features: rows per slice, and the number of rows whose activations are kept."""

    rows: int
    keep: int


HOW = {
    "one piece": Slices(ONE_PIECE, ONE_PIECE),
    "slices": Slices(4096, ONE_PIECE),
    "recomputed": Slices(4096, 0),
}
FULL = {f"{method}, {how}": (method, how) for method in ("irmv1", "irmv0") for how in HOW}
SIZES = (50_000, 200_000)


def full(name: str, rows: int) -> Training:
    """A full-batch run of a method with these slices; IRMv1 reads outputs alone, IRMv0 the features too."""
    method, how = FULL[name]
    training = run(METHODS[method], environments([rows // 2] * 2), "full-batch")
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


def full_batch(megabytes: Mapping[tuple[str, int], float], options: Options) -> None:
    """The second table."""
    runs = {name: full(name, SIZES[0]) for name in FULL}
    slopes = {name: gradients(training, training.data) for name, training in runs.items()}
    whole = {name: f"{method}, one piece" for name, (method, _) in FULL.items()}
    times = in_turns({name: training.advance for name, training in runs.items()}, 1 if options.quick else 6, repeats=1)
    rows = [
        {
            "method": name,
            "ms": times.ms(name),
            "time over one piece": times.ratio(name, whole[name]),
            "gradients differ by": difference(slopes[name], slopes[whole[name]]),
            **{f"MB, {size:,} rows": round(megabytes[name, size]) for size in SIZES},
        }
        for name in FULL
    ]
    note = (
        "Time at 50,000 rows; MB: memory that a step adds at its peak. Slices have 4,096 rows. "
        "The default keeps their activations up to 65,536 rows and recomputes them beyond."
    )
    show("One step over all rows", rows, note, options)


def main() -> None:
    options = Options.parse(__doc__)
    torch.set_num_threads(1)
    megabytes = memories()
    small_batch(options)
    full_batch(megabytes, options)


if __name__ == "__main__":
    main()
