"""What an engine is: it runs specs somewhere and writes what came of them to a store."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from invariance.core.fields import STRICT, NonNegative
from invariance.experiments.resume import SAVE_SECONDS
from invariance.experiments.spec import Spec
from invariance.experiments.stage_cache import stage_folder

POLL_SECONDS = 1.0
"""How often an engine looks again for what it is not told: runs that another driver is busy with, nodes that came."""


class Event(NamedTuple):
    """What happened to a run: it made progress (``step`` of ``steps``), or it is ``done`` with a status."""

    kind: Literal["step", "done"]
    spec: Spec
    step: int = 0
    steps: int = 0
    seconds: float = 0.0
    status: str = ""
    reason: str = ""
    reused: int = 0
    """Updates that another run had made."""


class Driver(Protocol):
    """Makes runs for one store, as often as it is asked to; what it has started stays until it is closed."""

    def run(self, specs: Sequence[Spec]) -> Iterator[Event]:
        """Run what is missing in the store and yield events."""

    def close(self) -> None:
        """Stop everything; what is finished is in the store."""


@dataclass(frozen=True, config=STRICT)
class Engine(ABC):
    """Runs specs, at most ``workers`` at a time, and saves their resume states every ``save_every`` seconds.

    A ``fresh`` one computes every stage anew; otherwise runs share them, in a folder beside the store.
    """

    workers: PositiveInt | None = None
    """None: as many as there are cores."""
    save_every: NonNegative = SAVE_SECONDS
    device: str = "cpu"
    fresh: bool = False

    def stages(self, store: Path) -> Path | None:
        """The folder of the stages that runs share."""
        return None if self.fresh else stage_folder(store)

    @abstractmethod
    def capacity(self) -> int:
        """How many runs it makes at a time."""

    @abstractmethod
    def driver(self, store: Path) -> Driver:
        """Who makes runs for this store; whoever asks for runs again and again keeps one."""

    def run(self, specs: Sequence[Spec], store: Path) -> Generator[Event, None, None]:
        """Run what is missing in the store and yield events; closing the iterator stops everything."""
        with closing(self.driver(store)) as driver:
            yield from driver.run(specs)
