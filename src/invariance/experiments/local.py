"""Runs on this machine: worker processes of one torch thread each."""

import json
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from multiprocessing import active_children, get_context

import torch

from invariance.errors import InvarianceError
from invariance.experiments.run import Run, execute
from invariance.experiments.spec import Spec


def run_all(specs: Sequence[Spec], workers: int) -> Iterator[tuple[int, Run]]:
    """Run every spec and yield (its index, its run) as they finish; closing the iterator cancels what waits."""
    if workers == 1 or len(specs) == 1:
        _one_thread()
        for index, spec in enumerate(specs):
            yield index, execute(spec).run
        return
    before = set(active_children())
    pool = ProcessPoolExecutor(min(workers, len(specs)), get_context("spawn"), _start_worker)
    try:
        waiting = {pool.submit(_work, json.dumps(spec.to_json())): index for index, spec in enumerate(specs)}
        for done in as_completed(waiting):
            yield waiting[done], Run.from_json(json.loads(done.result()))
    except BrokenExecutor:
        raise InvarianceError("a worker process was killed (out of memory?); try fewer --workers") from None
    finally:
        for child in set(active_children()) - before:
            child.terminate()
        pool.shutdown(cancel_futures=True)


def _one_thread() -> None:
    torch.set_num_threads(1)


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which then ends the workers
    _one_thread()


def _work(spec: str) -> str:
    return json.dumps(execute(Spec.from_json(json.loads(spec))).run.to_json())
