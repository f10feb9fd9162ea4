"""The local engine: worker processes on this machine, each doing one run at a time.

A worker that is killed fails its run alone. A driver that is killed takes its workers with it; what they had finished
is in the store, and what they had begun resumes from its last resume state when the same specs are run again. Several
drivers may work on one store: each run is done by one of them. Runs that begin alike are kept apart in time where there
is other work, so that the later one finds the stage that the earlier one has computed.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from typing import Any, final

from pydantic.dataclasses import dataclass

from invariance.core.device import resolved
from invariance.core.errors import InvarianceError, StoreError
from invariance.core.fields import STRICT
from invariance.core.provenance import cores
from invariance.experiments.engines.base import POLL_SECONDS, Engine, Event
from invariance.experiments.run import Run
from invariance.experiments.spec import Spec
from invariance.experiments.stage_cache import beginning
from invariance.experiments.store import Store, work_folder

MAX_FAILED_STARTS = 20
"""How many workers may be killed before they are ready."""


@final
@dataclass(frozen=True, config=STRICT)
class Local(Engine):
    """Worker processes on this machine, one per core unless ``workers`` says otherwise."""

    def capacity(self) -> int:
        return self.workers or cores()

    def driver(self, store: Path) -> "Driver":
        resolved(self.device)
        return Driver(self, store.absolute())


class WorkerProcess:
    """A worker process, as its driver sees it."""

    def __init__(self, engine: Local, store: Path, inbox: "Inbox") -> None:
        self.spec: Spec | None = None
        self.ready = False
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        environment = {"PYTHONPATH": os.pathsep.join(_search_path()), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", "invariance.experiments.worker", *_arguments(engine, store)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=os.environ | environment,
            start_new_session=True,  # Ctrl-C is for the driver
        )
        self.listener = threading.Thread(target=self._listen, args=(inbox,), daemon=True)
        self.listener.start()

    def _listen(self, inbox: "Inbox") -> None:
        assert self.process.stdout  # noqa: S101 - it is a pipe
        for line in self.process.stdout:
            if message := _message(line):
                inbox.put((self, message))
        inbox.put((self, None))

    def send(self, spec: Spec) -> None:
        """Send it a spec; that it has ended is noticed when its output ends."""
        self.spec = spec
        assert self.process.stdin  # noqa: S101 - it is a pipe
        with suppress(OSError):
            self.process.stdin.write(json.dumps(spec.to_json()) + "\n")
            self.process.stdin.flush()

    def exit_reason(self) -> str:
        """Why it ended."""
        code = self.process.wait()
        self.stderr.seek(0)
        errors = self.stderr.read().decode(errors="replace").strip().splitlines()
        if code < 0:
            name = signal.Signals(-code).name
            return f"its worker process was ended by {name}{' (out of memory?)' if name == 'SIGKILL' else ''}"
        return f"its worker process ended with code {code}{f': {errors[-1]}' if errors else ''}"

    def kill(self) -> None:
        """Kill it and wait until it is gone."""
        self.process.kill()
        self.process.wait()
        self.listener.join()
        for stream in (self.process.stdin, self.process.stdout, self.stderr):
            if stream:
                with suppress(OSError):
                    stream.close()


def _arguments(engine: Local, store: Path) -> list[str]:
    stages = engine.stages(store)
    return [str(store), str(engine.save_every), engine.device, *([str(stages)] if stages else [])]


def _search_path() -> list[str]:
    """Where a worker finds modules: where its driver does, but for the current folder, which may hold anything."""
    here = Path.cwd()
    return [place for place in sys.path if place and Path(place).resolve() != here]


def _message(line: str) -> dict[str, Any] | None:
    """A worker's message; None for half a line of a killed process, and for what other code prints on start."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and "event" in message else None


Inbox = Queue[tuple[WorkerProcess, dict[str, Any] | None]]


class Driver:
    """Sends specs to workers and receives their messages."""

    def __init__(self, engine: Local, store: Path) -> None:
        self.engine, self.path, self.max_workers = engine, store, engine.capacity()
        self.store = Store(self.path)
        self.inbox: Inbox = Queue()
        self.workers: list[WorkerProcess] = []
        self.waiting: deque[Spec] = deque()
        self.busy: list[Spec] = []
        """What another driver is running."""
        self.beginnings: dict[str, str] = {}
        """Of all specs, by their keys."""
        self.last_poll, self.failed_starts = 0.0, 0

    def close(self) -> None:
        """Kill all workers, and remove what one that was killed right after its run was stored has left of it."""
        for worker in self.workers:
            worker.kill()
        folder = work_folder(self.path)
        with suppress(OSError, StoreError):  # not empty, or another driver's
            done = self.store.done()
            for file in folder.glob("*"):
                if file.name.partition(".")[0] in done:
                    file.unlink(missing_ok=True)
            folder.rmdir()
        self.store.close()

    def run(self, specs: Sequence[Spec]) -> Iterator[Event]:
        """Everything that is missing."""
        done = self.store.done()
        self.waiting.extend({spec.key: spec for spec in specs if spec.key not in done}.values())
        self.beginnings = {spec.key: beginning(spec) for spec in self.waiting}
        while self.waiting or self.busy or any(worker.spec for worker in self.workers):
            self._assign()
            try:
                worker, message = self.inbox.get(timeout=POLL_SECONDS)
            except Empty:
                continue
            event = self._reap(worker) if message is None else self._handle(worker, message)
            if event:
                yield event

    def _assign(self) -> None:
        """Send every idle worker a spec, and start workers while there are more specs than idle ones."""
        if self.busy and time.monotonic() - self.last_poll > POLL_SECONDS:  # done by now, still busy, or free again
            self.waiting.extend(self.busy)
            self.busy, self.last_poll = [], time.monotonic()
        for worker in self.workers:
            if worker.ready and not worker.spec and self.waiting and worker.process.poll() is None:
                worker.send(self._next())
        idle = sum(not worker.spec for worker in self.workers)
        for _ in range(min(self.max_workers - len(self.workers), len(self.waiting) - idle)):
            self.workers.append(WorkerProcess(self.engine, self.path, self.inbox))

    def _next(self) -> Spec:
        """The first spec that waits and begins unlike every run under way; if there is none, the first."""
        under_way = {self.beginnings[worker.spec.key] for worker in self.workers if worker.spec}
        unlike = (spec for spec in self.waiting if self.beginnings[spec.key] not in under_way)
        spec = next(unlike, self.waiting[0])
        self.waiting.remove(spec)
        return spec

    def _handle(self, worker: WorkerProcess, message: dict[str, Any]) -> Event | None:
        """A worker's message. The worker is idle after everything but a step."""
        kind = message.pop("event")
        if kind == "ready":
            worker.ready = True
            return None
        spec = worker.spec
        assert spec  # noqa: S101 - only a worker with a spec sends messages
        if kind == "step":
            return Event("step", spec, **message)
        worker.spec = None
        if kind == "refused":
            raise StoreError(message["reason"])
        if kind == "busy":
            self.busy.append(spec)
            return None
        return Event("done", spec, **message)

    def _reap(self, worker: WorkerProcess) -> Event | None:
        """A worker has ended: its run has failed, and another worker takes its place if there is work."""
        self.workers.remove(worker)
        spec, reason = worker.spec, worker.exit_reason()
        worker.kill()
        if not worker.ready:
            self.failed_starts += 1
            if worker.process.returncode >= 0 or self.failed_starts > MAX_FAILED_STARTS:
                raise InvarianceError(f"a worker process did not start: {reason}")
        if not spec:
            return None
        self.store.add(Run(spec, "failed", (), 0.0, reason))
        (stored,) = self.store.summaries(key=spec.key)  # a result, if it was written before the worker was killed
        return Event("done", spec, seconds=stored.seconds, status=stored.status, reason=stored.reason)
