"""Ray's worker processes, killed or asked to end: at the n-th time that their driver changes a file.

The driver writes resume states and runs as tasks send them, so its changes count how far the tasks are. One driver and
one cluster of two cores serve all faults; each fault has a store of its own. All workers get the signal at once.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from invariance.core.ray_cluster import connect
from invariance.experiments.engines import run_all
from invariance.experiments.spec import Spec
from reliability.crashes import RAY_WORKER
from reliability.scenarios import SMALL, State, stored

CHANGES = {"os.rename", "os.remove", "os.mkdir", "sqlite3.connect"}
SIGNALS = {"kill": (signal.SIGKILL, 40), "SIGTERM": (signal.SIGTERM, 6)}
"""What the workers get, and how often at most."""


def specs() -> list[Spec]:
    changes = SMALL | {"evaluation": {"checkpoints": 4}}
    return [Spec.of("two-bit", method, "short", seed, changes) for method in ("irmv1", "rex") for seed in range(2)]


class Counted:
    """Counts the files that this process creates, renames, removes or opens as a database below a folder."""

    def __init__(self) -> None:
        self.folder, self.number, self.at = "", 0, 0
        self.fault: Callable[[], None] = lambda: None
        sys.addaudithook(self.hear)

    def arm(self, folder: Path, at: int, fault: Callable[[], None]) -> None:
        """Call ``fault`` at change ``at`` below ``folder``."""
        self.folder, self.number, self.at, self.fault = str(folder), 0, at, fault

    def hear(self, event: str, arguments: tuple[object, ...]) -> None:
        """Python calls this before it opens, renames or removes a file, among much else."""
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if self.folder and (writes or event in CHANGES) and self.folder in str(arguments[0]):
            self.number += 1
            if self.number == self.at:
                self.fault()


def workers() -> Iterator[int]:
    """The processes that work on tasks of this process: those that its raylet has started, without Ray's agents."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            works = command.startswith(b"ray::") and b"Agent" not in command
            if works and _parent(_parent(int(entry.name))) == os.getpid():
                yield int(entry.name)
        except OSError:  # it has just ended
            continue


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])


def study(folder: Path) -> Counter[str]:
    """Every run by Ray; how often each one ended."""
    events = run_all(specs(), folder / "runs.db", 2, engine="ray", save_every=0)
    return Counter(event.spec.key for event in events if event.kind == "done")


def wrong(folder: Path, ended: Counter[str], after: State) -> str:
    """What does not hold after a fault, or once the study was given again."""
    if any(count > 1 for count in ended.values()) or len(ended) < len(specs()):
        return f"runs ended {sorted(ended.values())} times"
    if not set(stored(folder)) <= set(after):
        return "a run is neither failed nor as it would have been"
    study(folder)
    return "" if stored(folder) == after else "the same study gives something else afterwards"


def faults(share: float, root: Path) -> Iterator[tuple[str, str, int, str]]:
    """Scenario, kind, number of the change, and what was wrong: empty where nothing was."""
    connect(cores=2)
    counted = Counted()
    (whole := root / "whole").mkdir(parents=True)
    counted.arm(whole, 0, lambda: None)
    study(whole)
    after, changes = stored(whole), counted.number
    for kind, (number, most) in SIGNALS.items():
        count = min(changes, max(1, round(most * share)))
        for i in range(count):
            at = 1 + (2 * i + 1) * changes // (2 * count)
            (place := root / f"{kind} {at}").mkdir()
            ended, killed = interrupted(counted, place, at, number)
            if killed:
                yield RAY_WORKER, kind, at, wrong(place, ended, after)


def interrupted(counted: Counted, place: Path, at: int, number: int) -> tuple[Counter[str], list[int]]:
    """The study, its workers ended by a signal at change ``at``: how often each run ended, and which workers."""
    killed: list[int] = []

    def fault() -> None:
        killed.extend(workers())
        for process in killed:
            os.kill(process, number)

    counted.arm(place, at, fault)
    ended = study(place)
    counted.arm(place, 0, lambda: None)
    return ended, killed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="of the faults")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for fault in faults(options.share, Path(folder)):
            print(json.dumps(fault), flush=True)


if __name__ == "__main__":
    main()
