"""What the benchmarks share: random data, runs in their penalty phase, alternating timers, options and output."""

import argparse
import gc
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Literal

import torch
from rich.console import Console
from rich.table import Table

from invariance.core.environment import Environment
from invariance.core.families import Bernoulli
from invariance.core.provenance import cores, provenance
from invariance.methods.base import Method
from invariance.methods.birm import BIRM
from invariance.methods.bloc_irm import BLOCIRM
from invariance.methods.erm import ERM
from invariance.methods.fishr import Fishr
from invariance.methods.irm_game import IRMGame
from invariance.methods.irmv0 import IRMv0
from invariance.methods.irmv1 import IRMv1
from invariance.methods.rex import REx
from invariance.methods.sparse_irm import SparseIRM
from invariance.models.mlp import MLP
from invariance.recipes.presets import recipe
from invariance.training.loop import Training

FIGURES = Path(__file__).parents[1] / "docs" / "benchmarks"
"""Where measured tables are kept, for the page that `tools/benchmarks.py` writes."""
INPUTS = 2 * 14 * 14  # Colored-MNIST
ONE_MOVE: dict[str, Method] = {
    "erm": ERM(),
    "irmv1": IRMv1(),
    "irmv0": IRMv0(),
    "rex": REx(),
    "fishr": Fishr(),
    "birm": BIRM(),
    "bloc-irm": BLOCIRM(),
    "sparse-irm": SparseIRM(),
}
METHODS: dict[str, Method] = {**ONE_MOVE, "irm-game": IRMGame()}

Step = Callable[[], object]
Precision = Literal["full", "bf16"]


@dataclass(frozen=True)
class Options:
    """The command-line options of every benchmark."""

    quick: bool
    json: bool
    busy: bool

    @property
    def threads(self) -> int:
        """Of a benchmark that uses all cores; on a busy machine one."""
        return 1 if self.busy else cores()

    @property
    def clock(self) -> Callable[[], float]:
        """Its clock; on a busy machine the processor time of this process."""
        return time.process_time if self.busy else time.perf_counter

    @property
    def how(self) -> str:
        """The same in words."""
        return "One thread, processor time. " if self.busy else f"{self.threads} threads, by the clock. "

    @classmethod
    def parse(cls, about: str | None) -> "Options":
        """Read them; ``about`` is the benchmark's docstring."""
        return cls.of(parser(about).parse_args())

    @classmethod
    def of(cls, read: argparse.Namespace) -> "Options":
        """From what a parser has read."""
        return cls(read.quick, read.json, read.busy)


def parser(about: str | None) -> argparse.ArgumentParser:
    """Of the options of every benchmark, for one that has more."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="few rounds: an impression, not a measurement")
    made.add_argument("--json", action="store_true", help="print JSON in place of tables")
    made.add_argument("--busy", action="store_true", help="one thread and processor time where it would be all cores")
    return made


@dataclass(frozen=True)
class Times:
    """Seconds of one step of each candidate, one number per round."""

    seconds: Mapping[str, Sequence[float]]

    def ms(self, name: str) -> float:
        """The median, in milliseconds."""
        return 1e3 * statistics.median(self.seconds[name])

    def ratio(self, name: str, reference: str) -> float:
        """How many times as long as ``reference``: the median over rounds, each under the same load."""
        pairs = zip(self.seconds[name], self.seconds[reference], strict=True)
        return statistics.median(own / other for own, other in pairs)


def in_turns(
    steps: Mapping[str, Step], rounds: int, repeats: int = 3, clock: Callable[[], float] = time.process_time
) -> Times:
    """Time all candidates round after round, so that a noisy machine is noisy for everyone.

    The clock is the processor time of this process: with one thread it is what a quiet machine's wall clock
    would show, and other processes do not count. A turn is one step to warm the caches, then ``repeats`` timed.
    """
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    gc.collect()
    gc.disable()
    for _ in range(rounds):
        for name, step in steps.items():
            step()
            start = clock()
            for _ in range(repeats):
                step()
            seconds[name].append((clock() - start) / repeats)
    gc.enable()
    return Times(seconds)


def environments(sizes: Sequence[int], seed: int = 0) -> list[Environment]:
    """Random inputs and coin-flip labels: time does not depend on what is learned."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.rand(sum(sizes), INPUTS, generator=draw)
    y = (torch.rand(sum(sizes), generator=draw) < 0.5).float()
    ends = [0, *torch.tensor(sizes).cumsum(0).tolist()]
    return [Environment(f"{e:04d}", x[a:b], y[a:b]) for e, (a, b) in enumerate(pairwise(ends))]


def bf16() -> bool:
    """Whether this processor multiplies in bf16, and is not told to do without AVX-512."""
    there = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return bool(there) and torch.backends.cpu.get_cpu_capability() == "AVX512"


def run(method: Method, data: Sequence[Environment], name: str, precision: Precision = "full") -> Training:
    """A run of the recipe ``name`` on Colored-MNIST's network, half-way between the switch and its end."""
    model = MLP().build((INPUTS,), 1)
    how = recipe(name, method.preferences, changes={"precision": precision})
    training = Training(model, method, data, how, Bernoulli(), 0)
    training.step = (training.switch + training.steps) // 2
    return training


def cells(row: Sequence[object]) -> Iterator[str]:
    """Numbers as people read them."""
    for value in row:
        if not isinstance(value, float):
            yield "" if value is None else str(value)
        elif 0 < value < 1e-3:
            yield f"{value:.0e}"
        else:
            yield f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"


def keep(name: str, rows: Sequence[Mapping[str, object]], note: str) -> None:
    """Keep a measured table for the page, with where and when it was measured and what else was running."""
    made = provenance()
    machine = {"processor": made["machine"]["processor"], "cores": made["machine"]["cores"]}
    when = {"date": datetime.now(UTC).date().isoformat(), "load": round(os.getloadavg()[0], 1)}
    torch_build = {"torch": torch.__version__, "vectors": torch.backends.cpu.get_cpu_capability()}
    FIGURES.mkdir(exist_ok=True)
    text = json.dumps({**machine, **torch_build, **when, "rows": rows, "note": note}, indent=1, ensure_ascii=False)
    (FIGURES / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def show(title: str, rows: Sequence[Mapping[str, object]], note: str, options: Options, name: str = "") -> None:
    """One table, or one line of JSON; one with a name is kept for the page, unless it is a quick impression."""
    if name and not options.quick:
        keep(name, rows, note)
    if options.json:
        print(json.dumps({"title": title, "rows": rows, "note": note}, ensure_ascii=False))
        return
    table = Table(title=title, caption=note, caption_justify="left")
    for column in rows[0]:
        words = any(isinstance(row[column], str) for row in rows)
        table.add_column(column, justify="left" if words else "right")
    for row in rows:
        table.add_row(*cells(list(row.values())))
    Console().print(table)
