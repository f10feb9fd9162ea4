"""The training loop: one update after another."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel

from invariance.core.batch import Batch
from invariance.core.environment import Environment
from invariance.core.errors import BadValue, Diverged
from invariance.core.families import Family
from invariance.core.inputs import Dropped, Inputs, float_dtype, floats, loaded
from invariance.core.ranks import rank, shard
from invariance.core.seeding import generator
from invariance.methods.base import Method, Move
from invariance.models.base import Model, batch_norms
from invariance.models.batch_norm import over_ranks, recalibrate, running_stats_updated_once
from invariance.models.compiled import compile_features
from invariance.models.scratch import Scratch, keep_freed_memory, scratch_of
from invariance.recipes.optimiser import Optimiser
from invariance.recipes.recipe import Recipe
from invariance.recipes.schedules import Clock
from invariance.training.batch_reader import BatchReader
from invariance.training.masks import Masks, kept_entries
from invariance.training.sampler import BatchSampler

StateDict = dict[str, Tensor]
CALIBRATION = 8
"""Batches from which averaged weights get their running statistics."""


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Denormal numbers, below 10⁻³⁸, are zero meanwhile.

    Adam's second moments of a loss that is divided by γ = 10⁶ get there, and a step then costs eighteen times as much.
    """
    before = not torch.full((), 1e-38).div(100).is_nonzero()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def arranged(environments: Sequence[Environment], recipe: Recipe, seed: int) -> list[Environment]:
    """Environments in the order of their names, so that the order they are given in does not matter.

    The rows of a full batch are shuffled, so that the two halves of an environment are alike.
    """
    by_name = sorted(environments, key=lambda e: e.name)
    return by_name if recipe.batch_size else [_shuffled(e, seed) for e in by_name]


class Training:
    """The state of a run and its one update; use it through :func:`~invariance.training.train.train`.

    ``step`` counts updates from ``first`` on, those of an earlier stage. ``offset`` [n, P] is added to the natural
    parameters of every row in the loss.
    """

    def __init__(
        self,
        model: Model,
        method: Method,
        environments: Sequence[Environment],
        recipe: Recipe,
        family: Family,
        seed: int,
        first: int = 0,
    ) -> None:
        environments = arranged(environments, recipe, seed)
        self.method, self.recipe, self.seed, self.first = method, recipe, seed, first
        self.device = model.device
        self.data = Batch.of(environments, family).to(self.device)
        names = [e.name for e in environments]
        sizes = (recipe.batch_size, recipe.penalty_batch_size or recipe.batch_size)
        samplers = [BatchSampler(names, self.data.counts, size, seed) if size else None for size in sizes]
        self.samplers = [(sampler, shard(sampler.counts if sampler else self.data.counts)) for sampler in samplers]
        self.reader: BatchReader | None = None
        self.switch, self.steps = (first + updates for updates in recipe.updates(len(self.data.y)))
        self.model = self._prepared(model)
        self.norms = batch_norms(self.model)
        self.players = {player.name: player for player in method.players(self.model)}
        if not all(any(p.requires_grad for p in player.parameters) for player in self.players.values()):
            raise BadValue(f"{method.title} has a part of the model without parameters to train")
        self.optimisers = self._fresh_optimisers()
        self.averaged: AveragedModel | None = None
        self.masks: Masks | None = None
        keep_freed_memory()
        self.scratch = Scratch(None if all(sampler for sampler, _ in self.samplers) else self.data.x)
        self.step, self.loss, self.stopped = first, math.nan, False

    def _prepared(self, model: Model) -> Model:
        """On the CPU, where random numbers are drawn, and back on the model's device."""
        model.bf16 = self.recipe.precision == "bf16"
        if model.bf16 and any(p.dtype == torch.float64 for p in model.parameters()):
            raise BadValue("the recipe's precision is bf16 and the model has 64-bit weights; give inputs of 32 bits")
        random = generator(self.seed, "objective")
        model = self.method.prepare(over_ranks(model.cpu()), self.data.environments, random).to(self.device).train()
        if self.recipe.compile:
            compile_features(model.features, self.device.type)
        return model

    def _fresh_optimisers(self) -> dict[str, Optimiser]:
        return {name: self.recipe.step.build(player.parameters) for name, player in self.players.items()}

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        return self.stopped or self.step >= self.steps

    def clock(self, step: int) -> Clock:
        """Where the run is before update ``step``."""
        return Clock(step - self.first, self.steps - self.first, self.switch - self.first)

    def averages(self, step: int) -> bool:
        """Whether the weights after so many updates are among those that are averaged."""
        return step > self.steps - round(self.recipe.average * self.steps)

    def batch_rows(self, step: int) -> int:
        """How many rows an update sees."""
        sampler, _ = self.samplers[step >= self.switch]
        return sum(sampler.counts if sampler else self.data.counts)

    @flushed_denormals()
    def advance(self) -> None:
        """One update."""
        clock = self.clock(self.step)
        if self.recipe.reset and self.step == self.switch:
            self.optimisers = self._fresh_optimisers()
        with self._random_state(), scratch_of(self.scratch), running_stats_updated_once(self.norms) as once:
            noise = generator(self.seed, "noise", self.step)
            if not self.model.training:
                self.model.train()
            batch = self._batch()
            if rank():
                self._seed_dropout(rank())
            for move in self.method.moves(self.model, batch, clock, noise):
                self._apply(replace(move, loss=once(move.loss)), clock)
            self.stopped = self.method.done(self.model, batch, clock)
        self.step += 1
        if self.finished and not all(p.isfinite().all() for p in self.model.parameters()):
            raise Diverged(f"weights are not finite after {self.step} updates; lower the learning rate or γ")
        if self.averages(self.step):
            self.averaged = self.averaged or AveragedModel(self.model, use_buffers=False)
            self.averaged.update_parameters(self.model)

    @contextmanager
    def _random_state(self) -> Iterator[None]:
        """A global random state for this update, for dropout; the one there was is restored."""
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            self._seed_dropout()
            yield

    def _seed_dropout(self, *rank: int) -> None:
        """Dropout layers of a user's module draw for the rows here, so each rank has random numbers of its own."""
        seed = generator(self.seed, "dropout", self.step, *rank).initial_seed()
        # torch.manual_seed also looks for other devices, which takes longer
        (torch.default_generator.manual_seed if self.device.type == "cpu" else torch.manual_seed)(seed)

    def _batch(self) -> Batch:
        batch = self._rows(self.step)
        if self.recipe.augment is not None:
            random = generator(self.seed, "augment", self.step)
            batch = replace(batch, x=self.recipe.augment(loaded(batch.x), random, batch.shard))
        if share := self.recipe.dropout_at(self.clock(self.step)):
            batch = replace(batch, x=self._dropped(batch, share))
        return batch

    def _dropped(self, batch: Batch, share: float) -> Inputs:
        """Inputs without the entries that the update does not see, the same ones on any number of ranks."""
        x = loaded(batch.x)
        if not batch.shard and x.device.type == "cpu":
            sliced = len(x) > self.model.slice
            how = x.shape, share, float_dtype(x)
            shared = self.masks if not sliced else None  # the masks of a full batch are too large to keep
            kept = shared.entries((self.seed, self.step), *how) if shared else kept_entries(*how)
            dropped = Dropped((x.numpy(),), range(len(x)), kept, share)
            return dropped if sliced else dropped.tensor()
        x = floats(x)
        if not batch.shard:
            return functional.dropout(x, share)
        ones = x.new_ones(sum(batch.shard.counts), *x.shape[1:])
        return x * batch.own(functional.dropout(ones, share))

    def _rows(self, t: int) -> Batch:
        sampler, part = self.samplers[t >= self.switch]
        if not sampler:
            return self._full if part else self.data
        if not part and (reader := self._reader(sampler)):
            rows, x = reader.read(t, self.steps if t >= self.switch else self.switch)
        else:
            rows, x = sampler.rows(t), None
        return self.data.take(rows, sampler.counts, part, x).to(self.device)

    def _reader(self, sampler: BatchSampler) -> BatchReader | None:
        """The reader of a sampler's batches, where they are read from a file; that of another one is given up."""
        if not self.reader or self.reader.sampler is not sampler:
            self.reader = BatchReader.of(self.data.x, sampler)
        return self.reader

    @cached_property
    def _full(self) -> Batch:
        """The shard of all rows that is here."""
        rows = torch.arange(len(self.data.y))
        return self.data.take(rows, self.data.counts, shard(self.data.counts)).to(self.device)

    def _apply(self, move: Move, clock: Clock) -> None:
        names = move.players or tuple(self.players)
        moving = [p for name in names for p in self.players[name].parameters if p.requires_grad]
        self.loss = float(self.recipe.gradient(move.loss, moving))
        if not math.isfinite(self.loss):
            raise Diverged(f"the loss is {self.loss} after {self.step} updates; lower the learning rate or γ")
        rate = self.recipe.rate(clock) * move.rate
        for name in names:
            player, optimiser = self.players[name], self.optimisers[name]
            l2 = move.l2 * self.recipe.l2_scale if player.l2 else 0.0
            optimiser.step(rate * player.rate, 2 * l2)
            optimiser.zero_grad()

    def current(self) -> Model:
        """The model as it would be used now: the averaged one, where weights are averaged already."""
        if not self.averaged:
            return self.model
        model = cast("Model", self.averaged.module)
        first = max(0, self.step - (CALIBRATION if self.recipe.batch_size else 1))
        recalibrate(model, (self._rows(t).x for t in range(first, self.step)))
        return model

    def offset_by(self, offset: Tensor | None) -> None:
        """Add ``offset`` [n, P] to the natural parameters of all rows from now on."""
        self.data = replace(self.data, offset=None if offset is None else offset.to(self.device))
        vars(self).pop("_full", None)

    def state(self) -> StateDict:
        """Model, averaged model, optimiser, offsets and step as named tensors."""
        named: StateDict = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        if self.averaged:
            named |= {f"averaged.{k}": v for k, v in self.averaged.state_dict().items()}
        for name, optimiser in self.optimisers.items():
            for i, slots in optimiser.slots.items():
                named |= {f"optimiser.{name}.{i}.{slot}": v for slot, v in slots.items()}
        if self.data.offset is not None:
            named["offset"] = self.data.offset
        named |= {"step": torch.tensor(self.step), "stopped": torch.tensor(self.stopped)}
        named |= {"loss": torch.tensor(self.loss, dtype=torch.float64)}
        return {k: v.detach().clone() for k, v in named.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what :meth:`state` gave."""
        self.step, self.stopped, self.loss = int(state["step"]), bool(state["stopped"]), float(state["loss"])
        self.model.load_state_dict(part(state, "model."))
        self.offset_by(state.get("offset"))
        if averaged := part(state, "averaged."):
            self.averaged = AveragedModel(self.model, use_buffers=False)
            self.averaged.load_state_dict(averaged)
        for name, optimiser in self.optimisers.items():
            slots: dict[int, dict[str, Tensor]] = {}
            for key, value in part(state, f"optimiser.{name}.").items():
                index, slot = key.split(".", 1)
                slots.setdefault(int(index), {})[slot] = value
            optimiser.load(slots)


def _shuffled(environment: Environment, seed: int) -> Environment:
    order = torch.randperm(len(environment), generator=generator(seed, "rows", environment.name))
    return environment.take(order)


def part(state: Mapping[str, Tensor], prefix: str) -> StateDict:
    """The tensors under a prefix, without it."""
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
