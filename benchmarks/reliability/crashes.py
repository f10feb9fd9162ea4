"""The crash matrix: every scenario × every kind of fault × the system calls that change files, one after another.

After each fault a reader must find what was there before or what is there after, whole; then the same command, given
again and undisturbed, must end in the same bits as if nothing had happened, and leave no half-written file behind.
"""

import argparse
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import NamedTuple

import torch

from reliability.injection import COUNT_ONLY, HERE, KINDS, PRELOAD, Ended, forked, preloaded, spawned
from reliability.scenarios import Scenario, scenarios, server

RAY_WORKER = "Ray worker"
ONCE = ("read-only",)
"""What is the same fault wherever it begins."""
OF_WORKERS = ("out of memory",)
"""What happens to processes that a scenario has started."""
SIGNALS = {"kill": signal.SIGKILL, "torn write": signal.SIGKILL, "SIGTERM": signal.SIGTERM}
WAIT_SECONDS = 60
PASSING = (".lock", "-wal", "-shm", "-journal")
"""What locks and databases leave: empty, or read by whoever comes next."""


class Fault(NamedTuple):
    """One injected fault, and what was wrong afterwards; empty where nothing was."""

    scenario: str
    kind: str
    at: int
    wrong: str


def faults(scenario: Scenario, share: float, root: Path) -> Iterator[Fault]:
    """Inject the faults of a scenario, evenly over its calls."""
    base, place = root / "base", root / "place"
    base.mkdir(parents=True)
    if not scenario.words:
        warm(scenario, root / "warm")
    _check(forked(lambda: scenario.before(base), base), scenario.name)
    shutil.copytree(base, place)
    done = attempt(scenario, place)
    _check(done, scenario.name)
    states = set_of(scenario, base), set_of(scenario, place)
    expected = names(base) | names(place)
    shutil.rmtree(place)
    for kind, at in plan(scenario, done.calls, share):
        shutil.copytree(base, place)
        ended = attempt(scenario, place, KINDS[kind], at)
        if kind not in SIGNALS or ended.code == -SIGNALS[kind]:  # a fault that came after the end is none
            found = wrong(scenario, place, states, ended)
            early = names(place) - expected if kind == "full disk" and not scenario.growing else set()
            yield Fault(scenario.name, kind, at, found or after_all(scenario, place, states[1], expected, early))
        shutil.rmtree(place)


def attempt(scenario: Scenario, place: Path, kind: int = COUNT_ONLY, at: int = 0) -> Ended:
    """Do what a scenario does, in a fork, or, where a fork cannot, in a new process."""
    if scenario.words:
        return spawned(scenario.words, place, kind, at)
    return forked(lambda: scenario.act(place), place, kind, at)


def warm(scenario: Scenario, folder: Path) -> None:
    """Do it once in this process, so that forks have imported already what they need."""
    folder.mkdir()
    os.chdir(folder)
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        scenario.before(folder)
        scenario.act(folder)


def plan(scenario: Scenario, calls: int, share: float) -> Iterator[tuple[str, int]]:
    """Kinds of faults and the calls at which they are injected, evenly: all calls, if there are no more."""
    for kind in KINDS:
        if kind in OF_WORKERS and not scenario.starts_workers:
            continue
        most = 1 if kind in ONCE else scenario.kills if kind == "kill" else scenario.others
        count = min(calls, max(1, round(most * share)))
        for i in range(count):
            yield kind, 1 + (2 * i + 1) * calls // (2 * count)


def wrong(scenario: Scenario, place: Path, states: tuple[set[str], set[str]], ended: Ended) -> str:
    """What does not hold right after a fault."""
    before, after = states
    if ended.traceback:
        return f"traceback: {ended.traceback}"
    if scenario.starts_workers:
        wait_for_workers(place)
    try:
        seen = set_of(scenario, place)
    except Exception as error:  # whatever a reader raises is the finding
        return f"not readable after the fault: {type(error).__name__}: {error}"
    if seen not in (before, after) and not (scenario.growing and before <= seen <= after):
        return f"neither old nor new after the fault: {sorted(seen)}"
    return ""


def after_all(scenario: Scenario, place: Path, after: set[str], expected: set[str], early: set[str]) -> str:
    """What does not hold once the same command was given again; ``early`` is what a full disk was left with."""
    if early:
        return f"left on a full disk: {', '.join(sorted(early))}"
    again = attempt(scenario, place)
    if again.code:
        return f"the same command fails afterwards: {again.errors.strip()[-200:]}"
    if set_of(scenario, place) != after:
        return "the same command gives something else afterwards"
    left = names(place) - expected
    return f"left behind: {', '.join(sorted(left))}" if left else ""


def names(folder: Path) -> set[str]:
    """The files below a folder, without locks and logs that belong to others."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(PASSING))
    return {path.relative_to(folder).as_posix() for path in files}


def set_of(scenario: Scenario, folder: Path) -> set[str]:
    """The state of a folder."""
    state = scenario.state(folder)
    if len(set(state)) != len(state):
        raise ValueError(f"twice the same: {state}")
    return set(state)


def wait_for_workers(place: Path) -> None:
    """Wait until worker processes whose driver is gone have noticed it."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline and any(str(place).encode() in line for line in _worker_commands()):
        time.sleep(0.1)


def _worker_commands() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            if b"worker" in (line := path.read_bytes()):
                yield line


def _check(ended: Ended, name: str) -> None:
    if ended.code:
        raise RuntimeError(f"{name} does not work undisturbed: {ended.errors[-2000:]}")


def pieces() -> list[str]:
    """What is measured by itself."""
    return [*(scenario.name for scenario in scenarios(0)), RAY_WORKER]


def matrix(share: float, names: list[str]) -> list[Fault]:
    """All faults of the named scenarios, or of all."""
    torch.set_num_threads(1)
    found: list[Fault] = []
    with tempfile.TemporaryDirectory() as folder, server(Path(folder) / "served") as port:
        for i, scenario in enumerate(scenarios(port)):
            if not names or scenario.name in names:
                found += map(_shown, faults(scenario, share, Path(folder) / str(i)))
    if not names or RAY_WORKER in names:
        found += map(_shown, ray_faults(share))
    return found


def ray_faults(share: float) -> Iterator[Fault]:
    """The faults of Ray's workers, in a process that nothing is loaded into: Ray's threads survive no fork."""
    command = [sys.executable, "-m", "reliability.ray_workers", "--share", str(share)]
    plain = {name: value for name, value in os.environ.items() if name != PRELOAD}
    with subprocess.Popen(command, cwd=HERE, env=plain, stdout=subprocess.PIPE, text=True) as process:
        yield from (Fault(*json.loads(line)) for line in process.stdout or ())
    if process.returncode:
        raise RuntimeError(f"the Ray workers' faults ended with {process.returncode}")


def _shown(fault: Fault) -> Fault:
    print(*fault, sep="\t", file=sys.stderr, flush=True)
    return fault


def summary(found: list[Fault]) -> dict[str, object]:
    """Counts by scenario and kind, and every finding."""
    counts = Counter((fault.scenario, fault.kind) for fault in found)
    return {
        "faults": len(found),
        "by_scenario": [[scenario, kind, count] for (scenario, kind), count in counts.items()],
        "wrong": [fault._asdict() for fault in found if fault.wrong],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="of the faults of each scenario")
    parser.add_argument("--only", action="append", default=[], help="a scenario; repeat")
    options = parser.parse_args()
    preloaded()
    print(json.dumps(summary(matrix(options.share, options.only))))


if __name__ == "__main__":
    main()
