"""A worker process: takes specs from standard input, runs them, writes them to the store, and reports progress.

One JSON object per line, both ways. A run is claimed by a lock on a file, which the system lifts when the process is
gone, however it went. When the driver is gone, so is the worker.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TextIO

import torch
from filelock import FileLock, Timeout

from invariance.core.errors import InvarianceError, StoreError
from invariance.experiments import resume
from invariance.experiments.run import LoadedData, Run, execute, failure
from invariance.experiments.spec import Spec
from invariance.experiments.stage_cache import stages
from invariance.experiments.store import Store, work_folder
from invariance.training.masks import Masks
from invariance.training.selection import History
from invariance.training.train import Snapshot

REPORT_SECONDS = 0.2
"""How often a worker reports the step of its run, at most."""


class Worker:
    """Runs one spec after another."""

    def __init__(self, store: Path, save_every: float, driver: TextIO, device: str = "cpu", stages: str = "") -> None:
        self.store, self.save_every, self.driver, self.device = Store(store), save_every, driver, device
        self.folder = work_folder(store)  # made by the first lock in it
        self.stages, self.masks, self.loaded = Path(stages) if stages else None, Masks(), LoadedData()

    def send(self, event: str, **content: Any) -> None:
        """Send the driver a message; without a driver there is nothing left to do."""
        try:
            self.driver.write(json.dumps({"event": event, **content}) + "\n")
            self.driver.flush()
        except BrokenPipeError:
            os._exit(0)

    def work(self, spec: Spec) -> None:
        """Run a spec, unless its result is in the store or another process is running it."""
        lock = self.folder / f"{spec.key}.lock"
        try:
            with FileLock(lock, blocking=False):
                run, reused = (None, 0) if self.store.has(spec.key) else self._run(spec)
                if run:
                    self.store.add(run)
                if run is None or run.status != "failed":
                    resume.remove(self._path(spec))
                lock.unlink(missing_ok=True)
        except Timeout:
            self.send("busy")
        except (StoreError, OSError) as error:
            self.send("refused", reason=str(error))
        else:
            self.send("done", **_outcome(run, reused))

    def _path(self, spec: Spec) -> Path:
        return self.folder / f"{spec.key}.safetensors"

    def _run(self, spec: Spec) -> tuple[Run, int]:
        """The run, and how many updates were there; whatever goes wrong, other than with the disk, is its result."""
        start = time.perf_counter()
        try:
            earlier = resume.load(self._path(spec))
            shared = stages(spec, self.stages, self.device, earlier, self.masks)
            monitor, device = self._monitor(spec), self.device
            done = execute(spec, monitor, resume_from=earlier, device=device, stages=shared, loaded=self.loaded)
            return done.run, shared.updates if shared else 0
        except StoreError:
            raise
        except Exception as error:  # a plug-in may raise anything
            if not isinstance(error, InvarianceError):
                resume.remove(self._path(spec))  # it may be what is wrong
            return failure(spec, error, time.perf_counter() - start), 0

    def _monitor(self, spec: Spec) -> "Monitor":
        return Monitor(self, self._path(spec))


def _outcome(run: Run | None, reused: int) -> dict[str, Any]:
    if not run:
        return {"status": "there"}
    return {"status": run.status, "reason": run.reason, "seconds": run.seconds, "reused": reused, "steps": run.updates}


class Monitor:
    """Reports the progress of a run every ``REPORT_SECONDS``, and saves its resume state every ``save_every``."""

    def __init__(self, worker: Worker, path: Path) -> None:
        self.worker, self.save, self.reported = worker, resume.Saver(path, worker.save_every), 0.0

    def __call__(self, snapshot: Snapshot, history: History, seconds: float) -> None:
        """Called at every snapshot."""
        now = time.monotonic()
        if now - self.reported >= REPORT_SECONDS:
            self.worker.send("step", step=snapshot.step, steps=snapshot.steps, seconds=seconds)
            self.reported = now
        self.save(snapshot, history, seconds)


def lines() -> Iterator[str]:
    """What the driver sends. A thread reads it, so that the driver's end is noticed in the middle of a run too."""
    inbox: SimpleQueue[str] = SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            inbox.put(line)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        yield inbox.get()


def main() -> None:
    """Work until the driver closes standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which then ends the workers
    driver = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what is printed must not get between the messages
    torch.set_num_threads(1)
    worker = Worker(Path(sys.argv[1]), float(sys.argv[2]), driver, *sys.argv[3:])
    worker.send("ready")
    for line in lines():
        worker.work(Spec.from_json(json.loads(line)))


if __name__ == "__main__":
    main()
