"""What a training step costs, on Colored-MNIST's network (392-390-390-1) with one thread.

Batches of 1,024 (two environments, drawn from 50,000 random rows, drawing included), after the switch. Each
method's step is timed in alternation with

  bound   the five matrix products that such a step cannot do without: two forward, three backward;
  loop    the same step written straightforwardly (straightforward.py): a loop over environments, a second
          backward pass for the penalty, l2 through autograd, unfused Adam. Both compute the same gradient,
          which is checked first.

Two methods need more than the five products, and their own bound counts it: SparseIRM draws a random number for every
weight, and IRM-Game computes the features twice, which makes seven products.

Aims, for methods that make one move per step: at least 0.80 of the bound with AVX-512 and 0.92 with AVX2. For
SparseIRM and IRM-Game: 0.75 of their own bound. The step in bf16 is timed where the processor has it. With
ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 a processor shows what it would do without
AVX-512.
"""

from collections.abc import Sequence
from statistics import median

import straightforward
import torch
from harness import INPUTS, METHODS, Options, Step, Times, bf16, environments, in_turns, run, show
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
NOTE = "Of its bound: SparseIRM's has the random numbers that it draws, IRM-Game's has seven products."


def bound(rows: int = BATCH) -> Step:
    """The five products, on operands of a step's sizes."""
    x, h, d1, d2 = (torch.randn(rows, size) for size in (INPUTS, WIDTH, WIDTH, WIDTH))
    w1, w2 = torch.randn(WIDTH, INPUTS), torch.randn(WIDTH, WIDTH)

    def products() -> tuple[Tensor, ...]:
        return x @ w1.T, h @ w2.T, d2.T @ h, d2 @ w2, d1.T @ x

    return products


def two_more() -> Step:
    """Two more products: the features once more."""
    x, h, w1, w2 = (torch.randn(*shape) for shape in ((BATCH, INPUTS), (BATCH, WIDTH), (WIDTH, INPUTS), (WIDTH, WIDTH)))
    return lambda: (x @ w1.T, h @ w2.T)


def random_numbers() -> Step:
    """One for every weight."""
    w1, w2 = torch.empty(WIDTH, INPUTS), torch.empty(WIDTH, WIDTH)
    return lambda: (w1.uniform_(), w2.uniform_())


OWN: dict[str, Step] = {"sparse-irm": random_numbers(), "irm-game": two_more()}
"""What a method cannot do without beside the five products."""


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
    names = move.players or tuple(training.players)
    moving = [p for name in names for p in training.players[name].parameters]
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


def own_share(times: Times, name: str) -> float:
    """The share of a method's own bound: the median over rounds."""
    extra = times.seconds.get(f"{name} own", [0.0] * len(times.seconds["bound"]))
    rounds = zip(times.seconds["bound"], extra, times.seconds[name], strict=True)
    return median((products + other) / step for products, other, step in rounds)


def main() -> None:
    options = Options.parse(__doc__)
    torch.set_num_threads(1)
    data = environments([ROWS // 2] * 2)
    differences = {name: check(name, data) for name in straightforward.METHODS}
    assert max(differences.values()) < 1e-2, f"ours and the loop differ: {differences}"
    steps: dict[str, Step] = {"bound": bound(), **{f"{name} own": step for name, step in OWN.items()}}
    steps |= {name: run(method, data, "small-batch").advance for name, method in METHODS.items()}
    steps |= {f"{name} loop": loop(name, data) for name in straightforward.METHODS}
    if bf16():
        steps |= {f"{name} bf16": run(method, data, "small-batch", "bf16").advance for name, method in METHODS.items()}
    times = in_turns(steps, 4 if options.quick else 20)
    rows: list[dict[str, object]] = [{"method": "the five products", "ms": times.ms("bound")}]
    for name in METHODS:
        row: dict[str, object] = {"method": METHODS[name].title, "ms": times.ms(name)}
        row |= {"of five products": times.ratio("bound", name), "of its bound": own_share(times, name)}
        row |= {"times faster than the loop": times.ratio(f"{name} loop", name)} if f"{name} loop" in steps else {}
        row |= {"time in bf16": times.ratio(f"{name} bf16", name)} if f"{name} bf16" in steps else {}
        rows.append(row)
    blank: dict[str, object] = dict.fromkeys([key for row in rows[1:] for key in row])
    vectors = torch.backends.cpu.get_cpu_capability().lower()
    show("One step of 1,024 rows, one thread", [blank | row for row in rows], NOTE, options, f"step-{vectors}")


if __name__ == "__main__":
    main()
