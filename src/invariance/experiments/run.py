"""From a spec to a run: load, train, measure at every snapshot."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter

from invariance.core import Benchmark, Environment
from invariance.errors import Diverged
from invariance.evaluation import collapsed, evaluate, score
from invariance.experiments.spec import Spec
from invariance.models.base import Model
from invariance.selection import Checkpoint
from invariance.training import Snapshot, train

Status = Literal["finished", "collapsed", "diverged"]


@dataclass(frozen=True)
class Run:
    """A spec and what came of it."""

    spec: Spec
    status: Status
    history: tuple[Checkpoint, ...]
    seconds: float
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data that :meth:`from_json` reads back."""
        history = TypeAdapter(tuple[Checkpoint, ...]).dump_python(self.history, mode="json")
        rest = {"status": self.status, "seconds": self.seconds, "reason": self.reason}
        return {"spec": self.spec.to_json(), "history": history, **rest}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Run":
        """The run that :meth:`to_json` made this of."""
        history = TypeAdapter(tuple[Checkpoint, ...]).validate_python(plain["history"])
        return cls(Spec.from_json(plain["spec"]), plain["status"], history, plain["seconds"], plain["reason"])


@dataclass
class Executed:
    """A run and the model it left."""

    run: Run
    model: Model
    benchmark: Benchmark = field(repr=False)


def execute(spec: Spec, on_snapshot: Callable[[Snapshot], None] | None = None, snapshots: int = 10) -> Executed:
    """Do what a spec says."""
    start = time.perf_counter()
    benchmark = load_benchmark(spec)
    model = fresh_model(spec, benchmark)
    history: list[Checkpoint] = []
    status: Status = "finished"
    reason = ""
    try:
        for snapshot in train(
            model,
            spec.objective,
            benchmark.train,
            spec.recipe,
            family=benchmark.family,
            seed=spec.seed,
            snapshots=snapshots,
        ):
            history.append(measure(snapshot, benchmark))
            model = snapshot.model
            if on_snapshot:
                on_snapshot(snapshot)
    except Diverged as error:
        status, reason = "diverged", str(error)
    if history and history[-1].collapsed and status == "finished":
        status, reason = "collapsed", "the final predictor is no better than a constant on validation samples"
    run = Run(spec, status, tuple(history), time.perf_counter() - start, reason)
    return Executed(run, model, benchmark)


def load_benchmark(spec: Spec) -> Benchmark:
    """The spec's data, without the environment it holds out."""
    benchmark = spec.data.load(spec.seed, oracle=spec.objective.oracle)
    return benchmark if spec.hold_out is None else benchmark.holding_out(spec.hold_out)


def fresh_model(spec: Spec, benchmark: Benchmark) -> Model:
    """The spec's model before training."""
    return spec.model.build(benchmark.input_shape, benchmark.family.outputs, spec.seed)


def measure(snapshot: Snapshot, benchmark: Benchmark) -> Checkpoint:
    """Scores of a snapshot on test, validation and (the first 5,000 samples of) training environments."""
    model, family = snapshot.model, benchmark.family
    seen = [Environment(e.name, e.x[:5000], e.y[:5000]) for e in benchmark.train]
    return Checkpoint(
        snapshot.step,
        snapshot.loss,
        collapsed(model, benchmark.validation or benchmark.train, family),
        score(model, seen, family),
        score(model, benchmark.validation or benchmark.train, family),
        evaluate(model, benchmark),
    )
