"""Stages that runs share: the states of a training, each named by a hash of everything that decided it.

The name of the state after t updates follows from the origin of the run (data, model, seed, machine), its first weights
and offset, and from what decided each update until then: the objective, the learning rate, the batch. Two runs that
give a state the same name have the same bits there, so the second takes it from where the first has left it. The
features that methods learn before the penalty sets in are such a stage, the environment classifier is another, and a
run of more epochs goes on where one of fewer ended, if nothing before depends on how many there are.
"""

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from torch import Tensor

from invariance.recipes.schedules import Clock
from invariance.training.loop import StateDict, Training
from invariance.training.masks import Masks
from invariance.training.selection import Checkpoint, History

PLACES = ("model.", "averaged.module.")
"""Where weights are in a state."""


class Stage(NamedTuple):
    """A state that was computed before and the seconds of training that it took, or what was measured there."""

    state: StateDict
    seconds: float
    history: History = ()


class Cache(Protocol):
    """Where states are kept. What cannot be kept, or is not there any more, is computed."""

    def names(self) -> Collection[str]:
        """Of all states."""

    def load(self, name: str) -> Stage | None:
        """A state as it was saved."""

    def save(self, name: str, stage: Stage) -> None:
        """Keep a state."""


@dataclass
class Stages:
    """The stages of one run, which is measured ``checkpoints`` times, and how much of it was taken from the cache."""

    cache: Cache
    origin: str
    checkpoints: int
    spent: float = 0.0
    """Seconds that the run had taken where it resumes."""
    masks: Masks | None = None
    """Dropout masks that it shares with other runs of its process."""
    updates: int = field(default=0, init=False)
    seconds: float = field(default=0.0, init=False)

    def due(self, every: int, steps: int) -> list[int]:
        """The updates after which the run is measured, given that there is a snapshot every so many of them."""
        found = [0]
        for step in range(every, steps, every):
            if due(step, found[-1], steps, self.checkpoints):
                found.append(step)
        return [*found[1:], steps]

    def checkpoint(self, state: str, by: str, measure: Callable[[], Checkpoint]) -> Checkpoint:
        """What is measured at the state of this name by what ``by`` says, and is kept beside it."""
        name = f"{state}-{hashlib.blake2b(by.encode(), digest_size=8).hexdigest()}"
        if stage := self.cache.load(name):
            self.seconds += stage.seconds
            return stage.history[0]
        start, taken = time.perf_counter(), self.seconds
        found = measure()
        self.cache.save(name, Stage({}, time.perf_counter() - start + self.seconds - taken, (found,)))
        return found


def due(step: int, done: int, steps: int, checkpoints: int) -> bool:
    """Whether a snapshot is the first in one of the equal parts of a run, after one that was measured at ``done``."""
    return step * checkpoints // steps > done * checkpoints // steps


class Walk:
    """A training that goes on update by update, or at once to a state that was computed before.

    It never goes past an update that the run is measured after. States there, and at the switch, are kept as long as
    the penalty has not set in; the last one is kept where a longer run would pass through it, or if ``keep_last``.
    """

    def __init__(
        self, training: Training, stages: Stages | None, due: Collection[int], *, keep_last: bool = False
    ) -> None:
        self.training, self.stages, self.due, self.keep_last = training, stages, due, keep_last
        self.weights = content(dict(_plain(training, training.model.state_dict()))) if stages else ""
        training.masks = stages.masks if stages else None
        self.names: dict[int, str] = {}
        """Of the states on the way, by their update."""
        self.kept: set[int] = set()
        self.spent, self.looking = 0.0, False

    def begin(self) -> None:
        """Name the states on the way, now that everything is known that decides them."""
        if self.stages:
            t = self.training
            self.names = names(t, f"{self.stages.origin} {self.weights} {t.first} {_offset(t)}")
            self.kept = {t.switch, *(step for step in self.due if step <= t.switch or self.keep_last)}
            if self.keep_last or _goes_on(t):
                self.kept.add(t.steps)
            self.spent, self.looking = self.stages.spent, True

    def advance(self) -> None:
        """One update, or all up to a state that was computed before."""
        if self.looking and self._jump():
            return
        start = time.perf_counter()
        self.training.advance()
        self.spent += time.perf_counter() - start
        step = self.training.step
        self.looking = self.looking or step in self.due
        if self.stages and (name := self.state):
            self.stages.cache.save(name, Stage(by_parameter(self.training), self.spent))

    @property
    def state(self) -> str:
        """The name of the state that was reached, if it is kept."""
        return self.names.get(self.training.step, "") if self.training.step in self.kept else ""

    def _jump(self) -> bool:
        """Whether there was a state between here and the next measurement; the furthest is taken."""
        assert self.stages  # noqa: S101
        self.looking = False
        t, there = self.training, self.stages.cache.names()
        goal = min((step for step in self.due if step > t.step), default=t.step)
        for step in range(min(goal, t.steps), t.step, -1):
            name = self.names.get(step, "")
            if name in there and (stage := self.stages.cache.load(name)):
                self.stages.updates += step - t.step
                self.stages.seconds += stage.seconds - self.spent
                self.spent, self.looking = stage.seconds, step == goal
                t.load(by_player(t, stage.state))
                return True
        return False

    def derived(self, what: str, compute: Callable[[], Tensor | None]) -> Tensor | None:
        """Something that follows from the last state alone, and is kept beside it."""
        if not self.stages or not (last := self.names.get(self.training.steps)):
            return compute()
        if stage := self.stages.cache.load(name := f"{last}-{what}"):
            self.stages.seconds += stage.seconds
            return stage.state.get(what)
        start = time.perf_counter()
        value = compute()
        self.stages.cache.save(name, Stage({} if value is None else {what: value}, time.perf_counter() - start))
        return value


def names(training: Training, origin: str) -> dict[int, str]:
    """Names of the states after each update, as far as it is known what decides them."""
    recipe, found = training.recipe, {}
    constant = (recipe.gradient, recipe.step, recipe.l2_scale, recipe.augment, recipe.precision, recipe.compile)
    chain = hashlib.blake2b(f"{origin} {constant} {recipe.batch_size is None}".encode(), digest_size=16)
    for step in range(training.first, training.steps):
        clock = training.clock(step)
        rows = training.batch_rows(step)
        what = training.method.decided_by(clock, sliced=rows > training.model.slice)
        if what is None:
            break
        fresh = recipe.reset and step == training.switch
        decided = (what, recipe.rate(clock), rows, recipe.dropout_at(clock), fresh, training.averages(step + 1))
        chain.update(repr(decided).encode())
        found[step + 1] = chain.hexdigest()
    return found


def content(state: StateDict) -> str:
    """A hash of named tensors."""
    found = hashlib.blake2b(digest_size=16)
    for name, tensor in state.items():
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        found.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def _offset(training: Training) -> str:
    offset = training.data.offset
    return "" if offset is None else content({"offset": offset})


def _goes_on(training: Training) -> bool:
    """Whether a run with more updates makes the last one as this run does."""
    last, schedule = training.clock(training.steps - 1), training.recipe.schedule
    return schedule(last) == schedule(Clock(last.step, last.steps + 1, last.switch))


def by_parameter(training: Training) -> StateDict:
    """The state as that of a plain model, with what optimisers remember under the names of parameters."""
    return dict(_plain(training, dict(_renamed(training.state(), dict(_slots(training))))))


def by_player(training: Training, state: StateDict) -> StateDict:
    """The same, for the model and the optimisers of this training; parts that only they have are as they were."""
    plain, own = training.method.plain_name, training.state()
    parts = [name for name in training.model.state_dict() if plain(name)]
    shared = {f"{place}{plain(name)}": f"{place}{name}" for place in PLACES for name in parts}
    slots = {name: ours for ours, theirs in _slots(training) if (name := plain(theirs))}
    rest = {name: tensor for name, tensor in own.items() if plain(name) is None}
    return rest | dict(_renamed({shared.get(name, name): tensor for name, tensor in state.items()}, slots))


def _plain(training: Training, state: StateDict) -> Iterable[tuple[str, Tensor]]:
    """What a plain model has, too, under its names there."""
    for name, tensor in state.items():
        if plain := training.method.plain_name(name):
            yield plain, tensor


def _slots(training: Training) -> Iterable[tuple[str, str]]:
    """Where an optimiser's memory of a parameter is in a state, by player and by parameter."""
    named = {parameter: name for name, parameter in training.model.named_parameters()}
    for player in training.players.values():
        for i, parameter in enumerate(player.parameters):
            yield f"optimiser.{player.name}.{i}", f"optimiser:{named[parameter]}"


def _renamed(state: StateDict, slots: Mapping[str, str]) -> Iterable[tuple[str, Tensor]]:
    for name, tensor in state.items():
        place, _, slot = name.rpartition(".")
        yield (f"{slots[place]}.{slot}" if place in slots else name), tensor
