"""Training one model on several ranks: what exactness is worth, and what it costs.

*Objective*: DistributedDataParallel averages the losses that ranks compute of their own rows. A penalty is not an
average over rows, so that is another objective. A batch of 1,024 rows of Colored-Digits (512 of each environment), a
model after four epochs of ERM, penalties at full weight: the mean of the losses of N parts over the loss of the batch,
and the distance of their gradients over the length of the exact one; medians over batches. Exact is 1 and 0.

*Cost*: a step on random data in batches of 1,024, on 1, 2 and 4 processes of this machine that talk by gloo. Messages
and bytes are counted where they are sent, per rank; *predicted* is 4·(P + 2·E·q) bytes with q averages per environment.
Times are wall times, the least of all steps: other work of the machine only adds to them. They are predicted by

    t(N, B) = t(1, B/N) + messages · latency + bytes / bandwidth,

the step of one process on its part of the batch, and what it sends, by the times of single messages of 8 B and 10 MB.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from multiprocessing import SimpleQueue
from statistics import median
from typing import Any

import torch
from harness import INPUTS, METHODS, Options, environments, show
from torch import Tensor
from torch.multiprocessing import get_context
from torch.multiprocessing.spawn import start_processes

from invariance.core import ranks
from invariance.core.batch import Batch
from invariance.core.families import Bernoulli
from invariance.core.shard import Shard
from invariance.data.colored_digits import ColoredDigits
from invariance.methods.base import Method
from invariance.methods.erm import ERM
from invariance.models.base import Model
from invariance.models.mlp import MLP
from invariance.recipes.presets import recipe
from invariance.recipes.schedules import Clock
from invariance.training.loop import Training
from invariance.training.train import train

PARTS = (2, 4, 8)
PENALISED = ("irmv1", "irmv0", "rex", "fishr", "birm", "bloc-irm", "sparse-irm")
ROWS = 1024
AVERAGES: dict[str, Callable[[int], int]] = {
    "erm": lambda d: 1,
    "irmv1": lambda d: 2,
    "irmv0": lambda d: d + 2,
    "fishr": lambda d: 2 * d + 3,
    "bloc-irm": lambda d: 2 * d + 3,
}
"""How many numbers per environment are averaged in a step, by the width d of the features."""


def pieces(batch: Batch, parts: int) -> Iterator[Batch]:
    """What each rank sees of a batch, as a batch of its own."""
    for rank in range(parts):
        shard = Shard.of(batch.counts, rank, parts)
        yield batch.take(shard.rows, shard.own)


def objective(model: Model, method: Method, batch: Batch) -> tuple[float, Tensor]:
    """The loss of the method's move with its penalty on, and its gradient by θ as one vector."""
    move = next(iter(method.moves(model, batch, Clock(60, 100, 50), torch.Generator().manual_seed(0))))
    value = move.loss()
    moving = [p for p in model.features.parameters() if p.requires_grad]
    return float(value.detach()), torch.cat([g.flatten() for g in torch.autograd.grad(value, moving)])


def against_ddp(batches: int) -> list[dict[str, object]]:
    """A row per method."""
    benchmark = ColoredDigits().load(0)
    how = recipe("short", changes={"epochs": 4})
    rows: list[dict[str, object]] = []
    for name in PENALISED:
        method = METHODS[name]
        model = MLP(width=128).build(benchmark.input_shape, 1)
        *_, last = train(model, ERM(), benchmark.train, how, family=benchmark.family)
        model = method.prepare(last.model, len(benchmark.train), torch.Generator().manual_seed(0))
        sampler = Training(MLP(width=8).build(benchmark.input_shape, 1), ERM(), benchmark.train, how, Bernoulli(), 1)
        found: dict[str, list[float]] = {}
        for t in range(batches):
            batch = sampler._rows(t)
            value, gradient = objective(model, method, batch)
            for parts in PARTS:
                each = [objective(model, method, piece) for piece in pieces(batch, parts)]
                mean = torch.stack([g for _, g in each]).mean(0)
                found.setdefault(f"loss, {parts}", []).append(sum(v for v, _ in each) / parts / value)
                found.setdefault(f"gradient, {parts}", []).append(float((mean - gradient).norm() / gradient.norm()))
        rows.append({"method": name} | {key: median(found[key]) for key in sorted(found)[::-1]})
    return rows


def on_rank(rank: int, work: Callable[[], Any], count: int, port: int, queue: "SimpleQueue[Any]") -> None:
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    with ranks.joined():
        found = work()
        if ranks.leads():
            queue.put(found)


def launched(work: Callable[[], Any], count: int) -> Any:
    """What the leader of ``count`` ranks finds."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    queue = get_context("fork").SimpleQueue()
    start_processes(on_rank, (work, count, port, queue), count, start_method="fork")
    return queue.get()


def timed(step: Callable[[], object], steps: int) -> float:
    """The least seconds of a step."""
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def step_cost(method: str, width: int, many: int, steps: int, rows: int = ROWS) -> tuple[float, float, float]:
    """Messages, bytes and seconds of a step on a batch of so many rows."""
    sent: list[int] = []
    collective = ranks._collective

    def counted(x: Tensor) -> None:
        sent.append(x.numel() * x.element_size())
        collective(x)

    ranks._collective = counted
    how = replace(recipe("small-batch"), batch_size=rows, warmup=0.0)
    data = environments([20 * ROWS // many] * many)
    training = Training(MLP(width=width).build((INPUTS,), 1), METHODS[method], data, how, Bernoulli(), 0)
    training.advance()
    sent.clear()
    seconds = timed(training.advance, steps)
    return len(sent) / steps, sum(sent) / steps, seconds


def cost(
    method: str, width: int, many: int, count: int, steps: int, message: dict[int, tuple[float, float]]
) -> dict[str, object]:
    """A row of the table; ``message`` is the latency and the bandwidth by the number of ranks."""
    messages, sent, seconds = launched(partial(step_cost, method, width, many, steps), count)
    parameters = (INPUTS + 1) * width + (width + 1) * width + (0 if method == "bloc-irm" else width + 1)
    predicted = 4 * (parameters + 2 * many * AVERAGES[method](width)) if count > 1 else 0
    row: dict[str, Any] = {"method": method, "E": many, "P": parameters, "ranks": count, "ms": 1e3 * seconds}
    row["predicted, ms"], row["measured over predicted"] = 0.0, 0.0
    if count > 1:
        latency, bandwidth = message[count]
        part = launched(partial(step_cost, method, width, many, steps, ROWS // count), 1)[2]
        row["predicted, ms"] = 1e3 * (part + messages * latency + predicted / bandwidth)
        row["measured over predicted"] = row["ms"] / row["predicted, ms"]
    return row | {"messages": messages, "kB": sent / 1e3, "predicted, kB": predicted / 1e3}


def all_reduce(numbers: int, steps: int) -> float:
    """Seconds of one message."""
    x = torch.ones(numbers)
    ranks.total(x)
    return timed(lambda: ranks.total(x), steps)


SIZES = {"8 B, ms": 2, "100 kB, ms": 25_000, "1 MB, ms": 250_000, "10 MB, ms": 2_500_000}


def messages(steps: int) -> Iterator[dict[str, Any]]:
    """A row per number of ranks."""
    for count in (2, 4):
        times = {name: 1e3 * launched(partial(all_reduce, size, steps), count) for name, size in SIZES.items()}
        yield {"ranks": count} | times


def speed(row: dict[str, Any]) -> tuple[float, float]:
    """Latency in seconds, and bandwidth in bytes per second."""
    latency = row["8 B, ms"] / 1e3
    return latency, 1e7 / (row["10 MB, ms"] / 1e3 - latency)


def main() -> None:
    options = Options.parse(__doc__)
    torch.set_num_threads(1)
    title = "The mean of the losses of N parts over the exact loss, and the distance of its gradient"
    show(title, against_ddp(3 if options.quick else 20), "By N. Exact: 1 and 0.", options)
    steps = 5 if options.quick else 40
    settings = [("irmv1", 390, 2), ("irmv1", 98, 2), ("irmv1", 390, 512)]
    settings += [(method, 390, 2) for method in ("erm", "irmv0", "fishr", "bloc-irm")] + [("irmv0", 390, 512)]
    times = list(messages(10 * steps))
    show("One message", times, "The sum over ranks of one tensor.", options)
    message = {row["ranks"]: speed(row) for row in times}
    rows = [cost(*setting, count, steps, message) for setting in settings for count in (1, 2, 4)]
    show("What a rank sends in a step", rows, "One thread per rank, on this machine.", options)


if __name__ == "__main__":
    main()
