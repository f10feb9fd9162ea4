"""Time, and numbers that depend on it: frozen, printable, step ↦ factor."""

from abc import ABC, abstractmethod
from typing import Annotated, Literal, NamedTuple, final

from pydantic import Discriminator
from pydantic.dataclasses import dataclass

from invariance.core.fields import STRICT, Positive, Share


class Clock(NamedTuple):
    """Where a run is: updates done, updates in all, and the update at which the penalty sets in."""

    step: int
    steps: int
    switch: int

    @property
    def annealed(self) -> bool:
        """Whether the penalty has its full weight."""
        return self.step >= self.switch

    @property
    def last(self) -> bool:
        """Whether this update is the last one."""
        return self.step + 1 == self.steps

    @property
    def share(self) -> float:
        """The part of the run that is done, in [0, 1)."""
        return self.step / self.steps


def ramp(clock: Clock, share: float) -> float:
    """A factor that rises from 0 over the first ``share`` of the run and is 1 from there on (Goyal et al. 2017)."""
    return min(1.0, (clock.step + 1) / max(1.0, share * clock.steps))


@dataclass(frozen=True, config=STRICT)
class Schedule(ABC):
    """A factor on the learning rate."""

    @abstractmethod
    def __call__(self, clock: Clock) -> float:
        """The factor at this moment."""


@final
@dataclass(frozen=True, config=STRICT)
class Constant(Schedule):
    """1 throughout."""

    kind: Literal["constant"] = "constant"

    def __call__(self, clock: Clock) -> float:
        return 1.0


@final
@dataclass(frozen=True, config=STRICT)
class Steps(Schedule):
    """Times ``factor`` at each share of the run in ``at``."""

    kind: Literal["steps"] = "steps"
    at: tuple[Share, ...] = (0.5, 0.75)
    factor: Positive = 0.1

    def __call__(self, clock: Clock) -> float:
        return self.factor ** sum(clock.share >= at for at in self.at)


@final
@dataclass(frozen=True, config=STRICT)
class Decay(Schedule):
    """1 until the penalty sets in, then straight down to 0 at the end."""

    kind: Literal["decay"] = "decay"

    def __call__(self, clock: Clock) -> float:
        return min(1.0, (clock.steps - clock.step) / max(1, clock.steps - clock.switch))


@final
@dataclass(frozen=True, config=STRICT)
class Drop(Schedule):
    """1 until the penalty sets in, then ``factor``, from there straight down to 0 at the end."""

    kind: Literal["drop"] = "drop"
    factor: Positive = 0.4

    def __call__(self, clock: Clock) -> float:
        return self.factor * Decay()(clock) if clock.annealed else 1.0


AnySchedule = Annotated[Constant | Steps | Decay | Drop, Discriminator("kind")]
