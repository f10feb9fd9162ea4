"""The local engine: worker processes on this machine, each doing one run at a time.

A worker that is killed fails its run alone. A driver that is killed takes its workers with it; what they had finished
is in the store, and what they had begun goes on from its last checkpoint when the same specs are run again. Several
drivers may work on one store: each run is done by one of them.
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
from typing import Any, Literal, NamedTuple

from invariance.core.errors import BadValue, InvarianceError, StoreError
from invariance.experiments.run import Run
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store, work_folder

PATIENCE = 1.0
"""Seconds between two looks at runs that another driver has."""
PERSISTENCE = 20
"""How many workers may be killed before they have begun."""


class Event(NamedTuple):
    """What happened to a run: it goes on (``step`` of ``steps``), or it is ``done`` with a status."""

    kind: Literal["step", "done"]
    spec: Spec
    step: int = 0
    steps: int = 0
    seconds: float = 0.0
    status: str = ""
    reason: str = ""


def run_all(specs: Sequence[Spec], store: Path, workers: int, *, save_every: float = 5.0) -> Iterator[Event]:
    """Run what is missing in the store and say how it goes; closing the iterator stops the workers."""
    if workers < 1:
        raise BadValue(f"workers = {workers}; at least 1 is needed")
    driver = Driver(store, workers, save_every)
    try:
        yield from driver.run(list({spec.key: spec for spec in specs}.values()))
    finally:
        driver.close()


class Process:
    """A worker process, as its driver sees it."""

    def __init__(self, store: Path, save_every: float, inbox: "Inbox") -> None:
        self.spec: Spec | None = None
        self.ready = False
        self.complaints = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        surroundings = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "invariance.experiments.worker", str(store), str(save_every)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
            text=True,
            encoding="utf-8",
            env=os.environ | surroundings,
            start_new_session=True,  # Ctrl-C is for the driver
        )
        self.listener = threading.Thread(target=self._listen, args=(inbox,), daemon=True)
        self.listener.start()

    def _listen(self, inbox: "Inbox") -> None:
        assert self.process.stdout  # noqa: S101 - it is a pipe
        for line in self.process.stdout:
            if line.endswith("\n"):  # a killed process may leave half a line
                inbox.put((self, json.loads(line)))
        inbox.put((self, None))

    def give(self, spec: Spec) -> None:
        """Send it a spec; a dead one is noticed when its end is heard of."""
        self.spec = spec
        assert self.process.stdin  # noqa: S101 - it is a pipe
        with suppress(OSError):
            self.process.stdin.write(json.dumps(spec.to_json()) + "\n")
            self.process.stdin.flush()

    def epitaph(self) -> str:
        """Why it ended."""
        code = self.process.wait()
        self.complaints.seek(0)
        said = self.complaints.read().decode(errors="replace").strip().splitlines()
        if code < 0:
            name = signal.Signals(-code).name
            return f"its worker process was ended by {name}{' (out of memory?)' if name == 'SIGKILL' else ''}"
        return f"its worker process ended with code {code}{f': {said[-1]}' if said else ''}"

    def end(self) -> None:
        """Stop it and wait until it is gone."""
        self.process.kill()
        self.process.wait()
        self.listener.join()
        for stream in (self.process.stdin, self.process.stdout, self.complaints):
            if stream:
                with suppress(OSError):
                    stream.close()


Inbox = Queue[tuple[Process, dict[str, Any] | None]]


class Driver:
    """Hands out specs and listens to workers."""

    def __init__(self, store: Path, workers: int, save_every: float) -> None:
        self.path, self.workers, self.save_every = store.absolute(), workers, save_every
        self.store = Store(self.path)
        self.inbox: Inbox = Queue()
        self.crew: list[Process] = []
        self.waiting: deque[Spec] = deque()
        self.elsewhere: list[Spec] = []
        self.looked, self.stillborn = 0.0, 0

    def close(self) -> None:
        """End all workers."""
        for process in self.crew:
            process.end()
        self.store.close()
        with suppress(OSError):  # not empty, or another driver's
            work_folder(self.path).rmdir()

    def run(self, specs: Sequence[Spec]) -> Iterator[Event]:
        """Everything that is missing."""
        there = self.store.done()
        self.waiting.extend(spec for spec in specs if spec.key not in there)
        while self.waiting or self.elsewhere or any(process.spec for process in self.crew):
            self._assign()
            try:
                process, message = self.inbox.get(timeout=PATIENCE)
            except Empty:
                continue
            event = self._bury(process) if message is None else self._hear(process, message)
            if event:
                yield event

    def _assign(self) -> None:
        """Give every free worker a spec, and hire where there are more specs than workers."""
        if self.elsewhere and time.monotonic() - self.looked > PATIENCE:  # there now, still busy, or free again
            self.waiting.extend(self.elsewhere)
            self.elsewhere, self.looked = [], time.monotonic()
        for process in self.crew:
            if process.ready and not process.spec and self.waiting:
                process.give(self.waiting.popleft())
        idle = sum(not process.spec for process in self.crew)
        for _ in range(min(self.workers - len(self.crew), len(self.waiting) - idle)):
            self.crew.append(Process(self.path, self.save_every, self.inbox))

    def _hear(self, process: Process, message: dict[str, Any]) -> Event | None:
        """What a worker says. It is free again after everything but a step."""
        kind = message.pop("event")
        if kind == "ready":
            process.ready = True
            return None
        spec = process.spec
        assert spec  # noqa: S101 - only a worker with a spec speaks
        if kind == "step":
            return Event("step", spec, **message)
        process.spec = None
        if kind == "refused":
            raise StoreError(message["reason"])
        if kind == "busy":
            self.elsewhere.append(spec)
            return None
        return Event("done", spec, **message)

    def _bury(self, process: Process) -> Event | None:
        """A worker is gone: its run has failed, and another worker takes its place if there is work."""
        self.crew.remove(process)
        spec, reason = process.spec, process.epitaph()
        process.end()
        if not process.ready:
            self.stillborn += 1
            if process.process.returncode >= 0 or self.stillborn > PERSISTENCE:
                raise InvarianceError(f"a worker process did not start: {reason}")
        if not spec:
            return None
        self.store.add(Run(spec, "failed", (), 0.0, reason))
        (kept,) = self.store.summaries(key=spec.key)  # a result, if it was written before the worker was killed
        return Event("done", spec, seconds=kept.seconds, status=kept.status, reason=kept.reason)
