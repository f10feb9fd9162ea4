"""The Ray engine: runs as tasks of one core each, and a GPU if they want one, on the machines of a cluster.

Tasks send what they find to the driver: progress, resume states, and at last the run. Only the driver writes the store
and the resume states beside it, so both are as the local engine leaves them, and either engine goes on where the other
was stopped. With a URI for ``checkpoints``, tasks keep resume states there instead. A run whose node is lost goes on
elsewhere from its last resume state; a run whose process dies has failed.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, final

from filelock import FileLock, Timeout
from pydantic.dataclasses import dataclass

from invariance.core.errors import InvarianceError
from invariance.core.fields import STRICT, NonNegative
from invariance.core.provenance import provenance
from invariance.core.ray_cluster import connect, nodes
from invariance.core.shipment import Packer
from invariance.experiments import resume
from invariance.experiments.engines.base import POLL_SECONDS, Engine, Event
from invariance.experiments.ray_task import Result, Saved, Setting, Step, work
from invariance.experiments.remote_states import RemoteStates
from invariance.experiments.run import ResumeState, failure, load_benchmark
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store, work_folder

QUEUED = 2
"""Runs under way per core of the cluster: a core that has finished one finds the next, and a cluster that grows with
its load sees that there is more to do."""
MAX_LOSSES = 3
"""How many nodes a run may lose in a row without having saved a resume state in between."""


@final
@dataclass(frozen=True, config=STRICT)
class Ray(Engine):
    """Tasks on the Ray cluster at ``address`` (HOST:PORT), else at RAY_ADDRESS, else on this machine alone."""

    save_every: NonNegative = 30.0
    address: str | None = None
    checkpoints: str | None = None
    """A URI that all machines reach: tasks keep resume states there, and not through the driver."""

    def capacity(self) -> int:
        machines = nodes(connect(self.address))
        return self.workers or max(1, sum(node.gpus if self.gpus else node.cores for node in machines))

    @property
    def gpus(self) -> int:
        """That a run needs, beside a core."""
        return int(self.device.startswith("cuda"))

    def driver(self, store: Path) -> "Driver":
        return Driver(self, store.absolute())


class UnderWay:
    """A run that a task was started for, with its lock, and what was heard of it."""

    def __init__(self, spec: Spec, lock: FileLock) -> None:
        self.spec, self.lock = spec, lock
        self.seconds, self.losses = 0.0, 0

    def release(self) -> None:
        """Let other drivers have it; the file goes first, since afterwards it may be theirs."""
        Path(self.lock.lock_file).unlink(missing_ok=True)
        self.lock.release()


class Driver:
    """Starts tasks, receives what they send, and writes it."""

    def __init__(self, engine: Ray, store: Path) -> None:
        self.engine, self.states = engine, RemoteStates(engine.checkpoints) if engine.checkpoints else None
        self.folder, self.store, self.stages = work_folder(store), Store(store), engine.stages(store)
        if self.stages:
            self.stages.mkdir(parents=True, exist_ok=True)  # a node where it is not to be seen does without
        self.ray = connect(engine.address)
        options = {"num_cpus": 1, "num_gpus": engine.gpus, "max_retries": 0, "num_returns": "streaming"}
        self.task = self.ray.remote(**options)(work)
        self.packer = Packer(self.ray.put)
        self.data: dict[Any, Any] = {}
        """Packed benchmarks by what decides them."""
        self.waiting: deque[Spec] = deque()
        self.under_way: dict[Any, UnderWay] = {}
        """Runs by the stream of what their tasks send."""
        self.room, self.last_poll = 0, 0.0

    def close(self) -> None:
        """Cancel all tasks. Their resume states stay."""
        for stream, run in self.under_way.items():
            self.ray.cancel(stream, force=True)
            run.release()
        self.store.close()
        for folder in filter(None, (self.folder, self.stages)):
            with suppress(OSError):  # not empty, or another driver's
                folder.rmdir()

    def run(self, specs: Sequence[Spec]) -> Iterator[Event]:
        """Everything that is missing."""
        done = self.store.done()
        self.waiting.extend({spec.key: spec for spec in specs if spec.key not in done}.values())
        while self.waiting or self.under_way:
            yield from self._start()
            for stream in self._ready():
                if event := self._receive(stream):
                    yield event

    def _ready(self) -> list[Any]:
        """Streams that hold something, after a while at the latest."""
        streams = list(self.under_way)
        if not streams:
            time.sleep(POLL_SECONDS)  # another driver is busy with all that is left
            return []
        self.ray.wait(streams, num_returns=1, timeout=POLL_SECONDS, fetch_local=False)
        ready: list[Any] = self.ray.wait(streams, num_returns=len(streams), timeout=0, fetch_local=False)[0]
        return ready

    def _start(self) -> Iterator[Event]:
        """Start tasks while there is room, of runs that no other driver is busy with; yield what has ended already."""
        if time.monotonic() - self.last_poll > POLL_SECONDS:  # nodes come and go
            self.room = self.engine.workers or QUEUED * self.engine.capacity()
            self.last_poll = time.monotonic()
        for _ in range(len(self.waiting)):
            if len(self.under_way) >= self.room:
                return
            spec = self.waiting.popleft()
            run = UnderWay(spec, FileLock(self.folder / f"{spec.key}.lock", blocking=False))
            try:
                run.lock.acquire()
            except Timeout:
                self.waiting.append(spec)
                continue
            if self.store.has(spec.key):
                yield self._end(run)
            elif event := self._submit(run):
                yield event

    def _submit(self, run: UnderWay) -> Event | None:
        """Start the task of a run, from its last resume state; data that cannot be loaded end it."""
        try:
            data = self._data(run.spec)
        except Exception as error:  # a plug-in may raise anything
            return self._end(run, Result(failure(run.spec, error, 0.0), provenance()), resumable=True)
        state = resume.load(self._path(run.spec))
        engine = self.engine
        setting = Setting(engine.device, engine.save_every, engine.checkpoints, self.stages, provenance())
        stream = self.task.remote(run.spec, data, state, setting)
        self.under_way[stream] = run
        return None

    def _data(self, spec: Spec) -> Any:
        key = spec.data, spec.seed, spec.method.oracle, spec.hold_out
        if key not in self.data:
            self.data[key] = self.packer.packed(load_benchmark(spec))
        return self.data[key]

    def _path(self, spec: Spec) -> Path:
        return self.folder / f"{spec.key}.safetensors"

    def _receive(self, stream: Any) -> Event | None:
        """The next thing that a task has sent. What is lost with its node does not count."""
        run = self.under_way[stream]
        errors = self.ray.exceptions
        try:
            content = self.ray.get(next(stream))
        except errors.RayTaskError as error:
            expected = isinstance(error.cause, InvarianceError)
            return self._fail(stream, error.cause, resumable=expected)
        except (errors.WorkerCrashedError, errors.OutOfMemoryError) as error:
            reason = "out of memory" if isinstance(error, errors.OutOfMemoryError) else "its worker process died"
            return self._fail(stream, InvarianceError(f"{reason} on a node of the cluster"), resumable=True)
        except errors.RayError as error:
            return self._lose(stream, error)
        match content:
            case Step():
                run.seconds = content.seconds
                return Event("step", run.spec, **content._asdict())
            case ResumeState() | Saved():
                if isinstance(content, ResumeState):
                    resume.save(content, self._path(run.spec))
                run.losses = 0
                return None
        del self.under_way[stream]
        return self._end(run, content)

    def _lose(self, stream: Any, error: Exception) -> Event | None:
        """A node is gone: its run goes on elsewhere, unless it takes one node after another with it."""
        run = self.under_way[stream]
        run.losses += 1
        if run.losses > MAX_LOSSES:
            reason = " ".join(str(error).split())
            return self._fail(stream, InvarianceError(f"it lost {run.losses} nodes in a row: {reason}"), resumable=True)
        del self.under_way[stream]
        self.ray.cancel(stream, force=True)  # if what was lost was only the way to it
        return self._submit(run)

    def _fail(self, stream: Any, error: BaseException, *, resumable: bool) -> Event:
        run = self.under_way.pop(stream)
        return self._end(run, Result(failure(run.spec, error, run.seconds), provenance()), resumable=resumable)

    def _end(self, run: UnderWay, result: Result | None = None, *, resumable: bool = False) -> Event:
        """Write a run, unless its result is there, and let go of it; a resumable one keeps its resume state."""
        if result:
            self.store.add(result.run, result.made_with)
        if not resumable:
            resume.remove(self._path(run.spec))
            if self.states:
                self.states.remove(run.spec.key)
        run.release()
        if not result:
            return Event("done", run.spec, status="there")
        made, reused = result.run, result.reused
        return Event("done", run.spec, made.updates, made.updates, made.seconds, made.status, made.reason, reused)
