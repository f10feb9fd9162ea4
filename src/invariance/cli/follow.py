"""Runs as they go: a bar for all of them, one for each that is running, and the time left."""

import sys
import time
from collections import Counter
from contextlib import redirect_stdout
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, TaskID, TextColumn

from invariance.cli import completion
from invariance.cli.options import errors, say, say_partial
from invariance.cli.tracking import say_tracked, track_run, tracking
from invariance.core.progress import progress_bar
from invariance.core.text import clean

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from invariance.experiments.engines.base import Driver, Engine, Event
    from invariance.experiments.spec import Spec
    from invariance.experiments.store import Store

INTERRUPTED = 130
"""Exit code: stopped by the user."""
QUIET = 30.0
"""Seconds between two lines where there is no terminal."""
DAY = 86_400.0
MONTH = 365.25 / 12 * DAY

StorePath = Annotated[Path, typer.Option("--store", help="The file of finished runs.")]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="Processes at a time (default: one per core).")]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        help="Where runs are trained: local (processes of this machine) or ray (a cluster).",
        autocompletion=completion.listed("local", "ray"),
    ),
]
Address = Annotated[
    str | None,
    typer.Option("--address", help="HOST:PORT of a Ray cluster (default: RAY_ADDRESS, else one on this machine)."),
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Train every run from its start, also where runs begin with the same updates.")
]
STORE = Path("runs.db")
FromPublished = Annotated[
    bool, typer.Option("--published", help="Read the published runs, which come with the package, in place of a store.")
]


def open_runs(store: Path, published: bool) -> "AbstractContextManager[Store]":
    """A store that is there, or the published runs as one."""
    from invariance.core.errors import BadValue
    from invariance.experiments.store import Store

    if not published:
        return Store(store, must_exist=True)
    if store != STORE:
        raise BadValue(f"--published reads the runs of the package and --store those of {store}; give one of them")
    from invariance.experiments.published import published_store

    return published_store()


class Reuse(Counter[str]):
    """How many runs went on from updates that others had made, how many updates these are, and of how many."""

    def see(self, event: "Event") -> None:
        """Take note of a run that is done."""
        self.update(runs=1, sharing=int(event.reused > 0), reused=event.reused, updates=event.steps)

    def say(self) -> None:
        """A line on standard error, if there is something to say."""
        if self["reused"]:
            errors().print(
                f"{self['reused']:,} of {self['updates']:,} updates were taken from stages that runs share "
                f"({self['sharing']} of {self['runs']} runs; --fresh does without)",
                highlight=False,
                soft_wrap=True,
            )


def carry_out(
    specs: "list[Spec]",
    store: Path,
    engine: "Engine",
    track: str | None = None,
    driver: "Driver | None" = None,
) -> Reuse:
    """Run what is missing in the store and show how it goes. Ctrl-C stops and keeps what is finished.

    A ``driver`` of the engine for this store is used again, if there is one.
    """
    tracker = tracking(track)
    specs = list({spec.key: spec for spec in specs}.values())
    stored = finished(store)
    missing = [spec for spec in specs if spec.key not in stored]
    reuse = Reuse()
    if not missing:
        return reuse
    if len(missing) < len(specs):
        errors().print(f"{len(specs) - len(missing)} of {len(specs)} runs are in {store} already", highlight=False)
    missing = _with_data(missing)
    for data in {repr(spec.data): spec.data for spec in missing}.values():
        say_partial(data)
    many = min(engine.capacity(), len(missing))
    try:
        with redirect_stdout(sys.stderr), Follow(missing, many) as follow:  # what an engine prints is no result
            for event in driver.run(missing) if driver else engine.run(missing, store):
                follow.see(event)
                if event.kind == "done":
                    reuse.see(event)
                if tracker and event.kind == "done" and event.status != "failed":
                    track_run(tracker, event.spec, store)
    except KeyboardInterrupt:
        done = len(finished(store) & {spec.key for spec in specs})
        errors().print(f"{done} of {len(specs)} runs are in {store}; the same command goes on", highlight=False)
        raise typer.Exit(INTERRUPTED) from None
    follow.conclude()
    if tracker:
        say_tracked(tracker)
    return reuse


def finished(store: Path) -> set[str]:
    """Keys of the runs that a store holds; a store that is not there holds none."""
    from invariance.experiments.store import Store

    if not store.exists():
        return set()
    with Store(store) as opened:
        return opened.done()


def _with_data(specs: "list[Spec]") -> "list[Spec]":
    """The runs whose data files are there or can be fetched; says what the others lack."""
    from invariance.core.errors import DataError
    from invariance.data.base import DataSet
    from invariance.data.formats.downloads import find

    lacking: dict[type[DataSet], DataError] = {}
    for cls in {type(spec.data) for spec in specs}:
        try:
            for file in cls.files:
                find(file)
        except DataError as error:
            lacking[cls] = error
    ready = [spec for spec in specs if type(spec.data) not in lacking]
    for cls, reason in lacking.items():
        if not ready:
            raise reason
        errors().print(f"{cls.title} is left out: {reason}", highlight=False, markup=False)
    return ready


class Follow:
    """The state of all runs, drawn on standard error; where that is no terminal, a line now and then."""

    def __init__(self, specs: "list[Spec]", workers: int) -> None:
        self.specs = specs
        self.workers, self.done, self.last_print = workers, 0, time.monotonic()
        self.worked: dict[str, tuple[float, float]] = {}  # the share of each run that is done, and its seconds
        self.console = errors()
        self.bar = progress_bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[left]}"),
            console=self.console,
        )
        self.total = self.bar.add_task("starting", total=1.0, left="")
        self.tasks: dict[str, TaskID] = {}
        self.failures: dict[str, list[str]] = {}  # titles of runs by their reason

    @cached_property
    def costs(self) -> dict[str, float]:
        """The expected seconds of each run; not asked for before runs have begun, since it takes a while."""
        from invariance.experiments.cost import seconds

        return {spec.key: seconds(spec) for spec in self.specs}

    def __enter__(self) -> "Follow":
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def left(self) -> str:
        """The time that is left, in words; nothing until a run is finished, since only then its pace is known."""
        return f"{span(self.seconds_left())} left" if self.done else ""

    def seconds_left(self) -> float:
        """For everything: what is left of the expected work, at the pace seen so far."""
        expected = sum(share * self.costs[key] for key, (share, _) in self.worked.items())
        spent = sum(seconds for _, seconds in self.worked.values())
        pace = spent / expected if expected > 0 and spent > 0 else 1.0
        return (sum(self.costs.values()) - expected) * pace / self.workers

    def see(self, event: "Event") -> None:
        """Take note of an event."""
        key = event.spec.key
        if event.kind == "done":
            self.done += 1
            self.worked[key] = (1.0, event.seconds)
            if key in self.tasks:
                self.bar.remove_task(self.tasks.pop(key))
            if event.status == "failed":
                self.failures.setdefault(event.reason, []).append(title(event.spec))
        else:
            share = event.step / event.steps
            self.worked[key] = (share, event.seconds)
            self._show(event, share)
        whole = sum(self.costs.values())
        part = sum(share * self.costs[key] for key, (share, _) in self.worked.items()) / whole
        text = f"{self.done} of {len(self.specs)} runs"
        self.bar.update(self.total, completed=part, description=text, left=self.left())
        if self.bar.disable and time.monotonic() - self.last_print > QUIET:
            say(", ".join(filter(None, (text, self.left()))))
            self.last_print = time.monotonic()

    def conclude(self) -> None:
        """Say what failed. Where everything failed for one reason, that is the command's own."""
        from invariance.core.errors import InvarianceError

        for reason, titles in self.failures.items():
            if len(titles) == len(self.specs):
                raise InvarianceError(reason)
            others = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
            self.console.print(f"{titles[0]}{others} failed: {clean(reason)}", highlight=False, markup=False)

    def _show(self, event: "Event", share: float) -> None:
        key = event.spec.key
        if key not in self.tasks:
            self.tasks[key] = self.bar.add_task(f"  {title(event.spec)}", total=1.0, left="")
        left = f"{span(event.seconds / share - event.seconds)} left" if share else ""
        self.bar.update(self.tasks[key], completed=share, left=left)


def title(spec: "Spec") -> str:
    """A run in a few words."""
    out = f", without {spec.hold_out}" if spec.hold_out else ""
    return f"{spec.method.title} on {spec.data.title}, {spec.recipe_name}, seed {spec.seed}{out}"


def span(seconds: float) -> str:
    """A time in the unit people would say it in."""
    if seconds >= 2 * MONTH:
        return f"{seconds / MONTH:.0f} months"
    for size, unit in ((DAY, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}" if seconds >= 10 * size else f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
