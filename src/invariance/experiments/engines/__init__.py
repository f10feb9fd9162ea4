"""Where runs are made: one file per engine; the folder is the registry."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from invariance.core.catalogue import Catalogue
from invariance.experiments.engines.base import Engine, Event
from invariance.experiments.spec import Spec

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
    return ENGINES.create(name, {option: value for option, value in options.items() if value is not None})


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
) -> Iterator[Event]:
    """Run what is missing in the store and yield events; closing the iterator stops the runs."""
    found = chosen(
        engine,
        workers=workers,
        address=address,
        save_every=save_every,
        device=device,
        fresh=fresh,
        checkpoints=checkpoints,
    )
    return found.run(specs, store)
