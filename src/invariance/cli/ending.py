"""How a command's runs ended: its last line, and its exit code."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from invariance.cli.options import errors, out

if TYPE_CHECKING:
    from invariance.experiments.spec import Spec

INCOMPLETE = 3
"""Exit code: ended with runs that failed or are missing."""
UNFINISHED = ("failed", "missing", "diverged", "collapsed")
"""How a run may end but well, the worst first."""


class Ended(NamedTuple):
    """How the runs that a command needed ended; ``waiting`` are places whose data are not here."""

    runs: int
    counts: Mapping[str, int]
    waiting: int = 0

    @property
    def incomplete(self) -> bool:
        """Whether something failed or is missing. A collapsed or diverged run is a result."""
        return bool(self.waiting or self.counts.get("failed") or self.counts.get("missing"))

    def __str__(self) -> str:
        told = [f"{self.counts[state]} {state}" for state in UNFINISHED if self.counts.get(state)]
        told = [f"{', '.join(told)} of {self.runs} run{'s' * (self.runs != 1)}"] if told else []
        waiting = f"{self.waiting} place{'s wait' if self.waiting > 1 else ' waits'} for data" if self.waiting else ""
        return "; ".join(filter(None, (*told, waiting)))


def ended(specs: "Iterable[Spec]", store: Path, waiting: int = 0) -> Ended:
    """What a store says of these runs."""
    from invariance.experiments.store import Store

    keys = {spec.key for spec in specs}
    states: dict[str, str] = {}
    if keys and store.exists():
        with Store(store) as opened:
            states = {run.key: run.status for run in opened.summaries()}
    return Ended(len(keys), Counter(states.get(key, "missing") for key in keys), waiting)


def last_line(text: str, how: Ended, *, quiet: bool = False) -> None:
    """Close a command: say what it made and how its runs ended, and leave with a code if some failed or are missing.

    A quiet command prints for machines, which are told how each run ended; beside that it says what is incomplete.
    """
    line = " · ".join(filter(None, (text, str(how))))
    if quiet:
        line = str(how) if how.incomplete else ""
    if line:
        (errors() if quiet else out()).print(line, highlight=False, markup=False, soft_wrap=True)
    if how.incomplete:
        raise typer.Exit(INCOMPLETE)
