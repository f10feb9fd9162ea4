"""Where runs are made: one file per engine; the folder is the registry."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from invariance.core.catalogue import Catalogue
from invariance.core.errors import BadValue
from invariance.core.progress import progress_bar
from invariance.experiments.engines.base import Engine, Event
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store

ENGINES: Catalogue[Engine] = Catalogue("engine", __name__, Engine)


def chosen(
    name: str,
    *,
    workers: int | None = None,
    address: str | None = None,
    save_every: float | None = None,
    device: str = "cpu",
    fresh: bool = False,
    checkpoints: str | None = None,
) -> Engine:
    """The named engine with those of the options that are given."""
    options = {
        "workers": workers,
        "address": address,
        "save_every": save_every,
        "device": device,
        "fresh": fresh,
        "checkpoints": checkpoints,
    }
    given = {option: value for option, value in options.items() if value is not None}
    for option in given.keys() - _options(name):
        owner = next(other for other in ENGINES.classes if option in _options(other))
        raise BadValue(f"--{option} belongs to --engine {owner}, and the engine is {name}; leave it out or change that")
    return ENGINES.create(name, given)


def _options(engine: str) -> set[str]:
    return {field.name for field in fields(cast("Any", ENGINES[engine]))}


def run_all(
    specs: Sequence[Spec],
    store: Path,
    workers: int | None = None,
    *,
    engine: str = "local",
    address: str | None = None,
    save_every: float | None = None,
    device: str = "cpu",
    fresh: bool = False,
    checkpoints: str | None = None,
    verbose: bool = False,
) -> Iterator[Event]:
    """Run what is missing in the store and yield events; closing the iterator stops the runs.

    ``verbose`` shows a progress bar, in a terminal or in a notebook.
    """
    found = chosen(
        engine,
        workers=workers,
        address=address,
        save_every=save_every,
        device=device,
        fresh=fresh,
        checkpoints=checkpoints,
    )
    return _shown(specs, store, found) if verbose else found.run(specs, store)


def _shown(specs: Sequence[Spec], store: Path, engine: Engine) -> Iterator[Event]:
    """The events of an engine, with a bar over the runs that are missing."""
    with Store(store) as runs:
        share = dict.fromkeys({spec.key for spec in specs} - runs.done(), 0.0)
    with progress_bar() as bar, closing(engine.run(specs, store)) as events:
        task = bar.add_task(f"0 of {len(share)} runs", total=len(share))
        for event in events:
            share[event.spec.key] = 1.0 if event.kind == "done" else event.step / event.steps
            ended = sum(each == 1 for each in share.values())
            bar.update(task, completed=sum(share.values()), description=f"{ended} of {len(share)} runs")
            yield event
