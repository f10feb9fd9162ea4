"""A long load: short runs by two workers, one after another, and a store of a hundred thousand runs.

Memory and open files of the driver and its workers are read every few seconds: they must stay flat.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from invariance.experiments.engines import run_all
from invariance.experiments.engines.base import Event
from invariance.experiments.run import execute
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store
from invariance.studies import STUDIES

WORKERS = 2
SAMPLE_SECONDS = 5.0
MOST_RUNS = 20_000


def spec(seed: int) -> Spec:
    """A run of well under a second."""
    changes = {"data": {"samples": 200}, "recipe": {"epochs": 5}, "evaluation": {"checkpoints": 2}}
    return Spec.of("two-bit", "irmv1", "short", seed, changes)


def usage() -> dict[str, list[float]]:
    """Megabytes and open files of this process and of its workers."""
    megabytes, files = [], []
    for process in [os.getpid(), *_children()]:
        try:
            pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
            files.append(float(len(os.listdir(f"/proc/{process}/fd"))))  # noqa: PTH208 - numbers of open files
        except OSError:  # it has just ended
            continue
        megabytes.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)
    return {"megabytes": megabytes, "files": files}


def _children() -> Iterator[int]:
    for task in Path("/proc/self/task").iterdir():
        yield from map(int, (task / "children").read_text(encoding="ascii").split())


def soak(seconds: float) -> dict[str, Any]:
    """Runs until the time is over; the first and the last readings."""
    readings: list[dict[str, list[float]]] = []
    done, start, last, first = 0, 0.0, 0.0, spec(0)
    with tempfile.TemporaryDirectory() as folder:
        runs = [first.with_seed(seed) for seed in range(MOST_RUNS)]
        events = run_all(runs, Path(folder) / "runs.db", WORKERS)
        for event in events:
            done += event.kind == "done"
            now = time.monotonic()
            start = start or now  # workers have started
            if now - last > SAMPLE_SECONDS and done > 2 * WORKERS:
                readings.append(usage())
                last = now
            if now - start > seconds:
                break
        cast("Generator[Event]", events).close()
        with Store(Path(folder) / "runs.db") as store:
            stored = len(store.summaries())
    return {"runs": done, "stored": stored, "seconds": seconds, "first": readings[0], "last": readings[-1]}


def large_store(runs: int) -> dict[str, float]:
    """Processor seconds to write, list, group and report so many runs: a fifth of them a study's, the others trials."""
    run = execute(spec(0)).run
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        with Store(path) as store:
            store.add(run)
            (record,) = store.records()
            times = {"runs": float(runs), "write": _seconds(partial(store.restore, many(record, runs)))}
            for name, read in (("list", store.summaries), ("group", store.groups), ("keys", store.done)):
                times[name] = _seconds(read)
        for name, words in (("runs list", ("runs", "list")), ("report", ("report", "-o", f"{folder}/report.html"))):
            command = [sys.executable, "-m", "invariance", *words, "--store", str(path)]
            before = _of_children()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times[name] = _of_children() - before
        times["page"] = Path(folder, "report.html").stat().st_size / 1e6
    return times


def many(record: Mapping[str, Any], runs: int) -> Iterator[dict[str, Any]]:
    """So many records like this one: of the arms of Table 4, and of trials of five seeds each."""
    arms = [arm.spec for arm in STUDIES["table-4"]().arms("smoke") if arm.spec]
    seeds = runs // 5 // len(arms)
    for i, arm in enumerate(arms):
        plain, trial = arm.to_json(), arm.trial.key
        columns = {name: plain[section]["name"] for name, section in (("data", "data"), ("method", "objective"))}
        for seed in range(seeds):
            own = {"key": f"{i:08x}{seed:016x}", "trial": trial, "seed": seed, "spec": {**plain, "seed": seed}}
            yield {**record, **columns, **own}
    for i in range(runs - seeds * len(arms)):
        yield {**record, "key": f"f{i:023x}", "trial": f"{i // 5:024x}", "seed": i}


def _seconds(act: Callable[[], object]) -> float:
    start = time.process_time()
    act()
    return time.process_time() - start


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def pieces() -> list[str]:
    """What is measured by itself."""
    return ["load", "store"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=pieces(), required=True)
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--runs", type=int, default=100_000)
    options = parser.parse_args()
    print(json.dumps(soak(options.seconds) if options.only == "load" else large_store(options.runs)))


if __name__ == "__main__":
    main()
