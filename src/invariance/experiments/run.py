"""From a spec to a run: load, train, measure."""

import hashlib
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from invariance.core.device import resolved
from invariance.core.environment import Benchmark
from invariance.core.errors import Diverged, InvarianceError
from invariance.core.ranks import leader_first, leads
from invariance.core.seeding import generator
from invariance.evaluation.diagnostics import scores_and_diagnostics
from invariance.evaluation.landscape import LossGrid, landscape
from invariance.evaluation.scores import Scores, evaluate, exact_and_sampled, validate
from invariance.experiments.spec import Spec
from invariance.models.base import Model
from invariance.training.loop import StateDict
from invariance.training.selection import Checkpoint, History, dump_history, load_history
from invariance.training.stages import Stages, due
from invariance.training.train import Snapshot, train

Status = Literal["finished", "collapsed", "diverged", "failed"]
SNAPSHOTS = 100
"""How often a run reports its progress, at least."""


@dataclass(frozen=True)
class Run:
    """A spec and what came of it. ``weights`` is a digest of the final ones; a failed run may be tried again.

    ``reason`` says why a run did not finish well, or, of one that did, that debiasing found nothing to remove.
    """

    spec: Spec
    status: Status
    history: History
    seconds: float
    reason: str = ""
    weights: str = ""
    landscape: LossGrid | None = None

    @property
    def updates(self) -> int:
        """How many it made until it was measured last."""
        return self.history[-1].step if self.history else 0

    def to_json(self) -> dict[str, Any]:
        """Plain data that :meth:`from_json` reads back."""
        rest = {"status": self.status, "seconds": self.seconds, "reason": self.reason, "weights": self.weights}
        history = dump_history(self.history)
        return {"spec": self.spec.to_json(), "history": history, **rest, "landscape": self.landscape}

    @classmethod
    def from_json(cls, plain: dict[str, Any], spec: Spec | None = None) -> "Run":
        """The run that :meth:`to_json` made this of; ``spec`` is its own, if it was read already."""
        grid = plain["landscape"] and tuple(tuple(row) for row in plain["landscape"])
        return cls(
            spec or Spec.from_json(plain["spec"]),
            plain["status"],
            load_history(plain["history"]),
            plain["seconds"],
            plain["reason"],
            plain["weights"],
            grid,
        )


class ResumeState(NamedTuple):
    """A run so far: everything that is needed to resume it bit for bit."""

    state: StateDict
    history: History
    seconds: float


class Progress(NamedTuple):
    """A run at a snapshot: the history so far, and the seconds that it has taken."""

    snapshot: Snapshot
    history: History
    seconds: float


Watch = Callable[[Snapshot, History, float], None]
"""Called with every :class:`Progress` of a run."""


def resume_state(snapshot: Snapshot, history: History, seconds: float) -> ResumeState | None:
    """The resume state at a checkpoint; None at a snapshot that was not measured."""
    measured = history and history[-1].step == snapshot.step
    return ResumeState(snapshot.state(), history, seconds) if measured else None


@dataclass
class Executed:
    """A run and its final model."""

    run: Run
    model: Model
    benchmark: Benchmark = field(repr=False)


def execute(
    spec: Spec,
    watch: Watch = lambda snapshot, history, seconds: None,
    *,
    resume_from: ResumeState | None = None,
    device: str = "cpu",
    stages: Stages | None = None,
    loaded: "LoadedData | None" = None,
) -> Executed:
    """Do what a spec says, from the beginning or from a resume state of the same spec.

    ``stages`` are shared with other runs of the same process count; the run's seconds are then as if it were alone.
    ``loaded`` are data that it shares with the run before it in the same process.

    Several ranks do it together, each of them by this call, and the leader alone measures and watches. The number of
    ranks and the device change the numbers by rounding alone, and may change where a run resumes.
    """
    with leader_first():
        benchmark = loaded.of(spec) if loaded else load_benchmark(spec)
    execution = executing(spec, benchmark, resume_from=resume_from, device=device, stages=stages)
    while True:
        try:
            progress = next(execution)
        except StopIteration as end:
            executed: Executed = end.value
            return executed
        watch(*progress)


def executing(
    spec: Spec,
    benchmark: Benchmark,
    *,
    resume_from: ResumeState | None = None,
    device: str = "cpu",
    stages: Stages | None = None,
) -> Generator[Progress, None, Executed]:
    """The same on data that are loaded, snapshot by snapshot, and then the run."""
    start = time.perf_counter() - (resume_from.seconds if resume_from else 0.0)

    def seconds() -> float:
        return time.perf_counter() - start + (stages.seconds if stages else 0.0)

    model = fresh_model(spec, benchmark).to(resolved(device))
    history = resume_from.history if resume_from else ()
    status: Status = "finished"
    reason = ""
    snapshots = train(
        model,
        spec.method,
        benchmark.train,
        spec.recipe,
        family=benchmark.family,
        seed=spec.seed,
        snapshots=max(SNAPSHOTS, spec.evaluation.checkpoints),
        state=resume_from.state if resume_from else None,
        stages=stages,
    )
    try:
        for snapshot in snapshots:
            model, reason = snapshot.model, snapshot.note
            if not leads():
                continue
            if _due(snapshot, history, spec.evaluation.checkpoints):
                history = (*history, _checkpoint(snapshot, benchmark, spec, stages))
            yield Progress(snapshot, history, seconds())
    except Diverged as error:
        status, reason = "diverged", str(error)
    if history and history[-1].collapsed and status == "finished":
        status, reason = "collapsed", "the final predictor is no better than a constant on validation samples"
    points = spec.evaluation.landscape if status != "diverged" and leads() else 0
    grid = landscape(model, benchmark, points, spec.seed) if points else None
    run = Run(spec, status, history, seconds(), reason, digest(model), grid)
    return Executed(run, model, benchmark)


def failure(spec: Spec, error: BaseException, seconds: float) -> Run:
    """The run that an error has ended; an error of our own is its own explanation."""
    reason = str(error) if isinstance(error, InvarianceError) else f"{type(error).__name__}: {error}"
    return Run(spec, "failed", (), seconds, " ".join(reason.split()))


def _due(snapshot: Snapshot, history: History, checkpoints: int) -> bool:
    """Whether to measure: at the end, and at the first snapshot in each of the equal parts of a run."""
    done = history[-1].step if history else 0
    if snapshot.finished:
        return snapshot.step > done
    return due(snapshot.step, done, snapshot.steps, checkpoints)


def load_benchmark(spec: Spec) -> Benchmark:
    """The spec's data, without the environment it holds out."""
    benchmark = spec.data.load(spec.seed, oracle=spec.method.oracle)
    return benchmark if spec.hold_out is None else benchmark.holding_out(spec.hold_out)


class LoadedData:
    """The data of one run, which the next one of the process mostly needs, too."""

    def __init__(self) -> None:
        self.key: object = None
        self.benchmark: Benchmark | None = None

    def of(self, spec: Spec) -> Benchmark:
        """A spec's data; those of another one are given up first."""
        key = spec.data, spec.data.fingerprint(), spec.seed, spec.method.oracle, spec.hold_out
        if self.benchmark is None or key != self.key:
            self.benchmark = None
            self.key, self.benchmark = key, load_benchmark(spec)
        return self.benchmark


def fresh_model(spec: Spec, benchmark: Benchmark) -> Model:
    """The spec's model before training."""
    return spec.model.build(benchmark.input_shape, benchmark.family.outputs, spec.seed)


def prepared_model(spec: Spec, benchmark: Benchmark) -> Model:
    """The spec's model as its method makes it ready for training."""
    random = generator(spec.seed, "objective")
    return spec.method.prepare(fresh_model(spec, benchmark), len(benchmark.train), random)


def _checkpoint(snapshot: Snapshot, benchmark: Benchmark, spec: Spec, stages: Stages | None) -> Checkpoint:
    """What is measured at a snapshot, or was by another run that shares its state.

    A run of another method shares the scores, if its model has the same parts, and not the diagnostics.
    """
    if not stages or not snapshot.stage:
        return measure(snapshot, benchmark, spec)
    parts = f"scores {sorted(snapshot.model.state_dict())}"
    by = f"{spec.evaluation.train_rows} {spec.method.measured_by()}"

    def scored() -> Checkpoint:
        return stages.checkpoint(snapshot.stage, parts, lambda: _scored(snapshot, benchmark, spec))

    return stages.checkpoint(snapshot.stage, by, lambda: _diagnosed(scored(), snapshot, benchmark, spec))


def measure(snapshot: Snapshot, benchmark: Benchmark, spec: Spec) -> Checkpoint:
    """Scores of a snapshot on test, validation and the first samples of training environments, and its diagnostics."""
    return _diagnosed(_scored(snapshot, benchmark, spec), snapshot, benchmark, spec)


def _scored(snapshot: Snapshot, benchmark: Benchmark, spec: Spec) -> Checkpoint:
    """Scores on test and validation samples; none yet on training samples."""
    model, family = snapshot.model, benchmark.family
    held = validate(model, benchmark.validation or benchmark.train, family)
    if benchmark.mechanism:
        drawing = generator(spec.seed, "sampled test")
        test, sampled = exact_and_sampled(model, benchmark.mechanism, family, drawing)
    else:
        test, sampled = evaluate(model, benchmark), None
    return Checkpoint(
        *(snapshot.step, snapshot.loss, held.collapsed, Scores({}), held.scores, test, sampled),
        risk=held.risk,
        homogeneity=held.homogeneity,
        trained=snapshot.trained,
    )


def _diagnosed(scored: Checkpoint, snapshot: Snapshot, benchmark: Benchmark, spec: Spec) -> Checkpoint:
    """The same with what is measured on the first samples of training environments."""
    first = [e.take(slice(spec.evaluation.train_rows)) for e in benchmark.train]
    train, diagnostics = scores_and_diagnostics(snapshot.model, spec.method, first, benchmark.family)
    return replace(scored, loss=snapshot.loss, train=train, diagnostics=diagnostics)


def digest(model: Model) -> str:
    """A hash of a model's weights, equal where they are equal bit for bit."""
    found = hashlib.blake2b(digest_size=16)
    for name, tensor in model.state_dict().items():
        found.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()
