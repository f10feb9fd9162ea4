"""Training from the first update to the last: a generator of snapshots, with everything else hung on its outside.

Where the recipe asks for debiasing, an environment classifier is trained first (`training/debiasing.py`); the offset it
gives is added to the natural parameters in the training that follows.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from invariance.core.environment import Environment
from invariance.core.errors import BadValue
from invariance.core.families import Family
from invariance.core.ranks import from_leader
from invariance.methods.base import Method
from invariance.models.base import Model
from invariance.recipes.presets import SHORT
from invariance.recipes.recipe import Recipe
from invariance.training.biased_expert import biased_expert
from invariance.training.debiasing import no_offset, stage
from invariance.training.loop import StateDict, Training, part
from invariance.training.stages import Stages, Walk

DEBIASING = "debiasing."
"""Prefix of the first stage's tensors in a saved state."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A run after ``step`` of ``steps`` updates: ``model`` is what would be used now, ``state()`` resumes from here.

    ``note`` says so where the run was to be debiased and has no logit offset. ``trained`` is whether the model has had
    an update: not yet, while an environment classifier learns. ``stage`` is the name under which the state is shared
    with other runs, if it is.
    """

    step: int
    steps: int
    loss: float
    model: Model
    finished: bool
    state: Callable[[], StateDict] = field(repr=False)
    note: str = ""
    trained: bool = True
    stage: str = ""


def train(
    model: Model,
    method: Method,
    environments: Sequence[Environment],
    recipe: Recipe,
    *,
    family: Family,
    seed: int = 0,
    snapshots: int = 10,
    state: Mapping[str, Tensor] | None = None,
    stages: Stages | None = None,
) -> Iterator[Snapshot]:
    """Train ``model`` and yield ``snapshots`` evenly spaced snapshots, the last one always.

    ``model`` is changed in place, so a snapshot holds until the next one is asked for. ``state`` resumes a run of
    the same arguments where it stood, bit for bit. ``stages`` are shared with other runs: a state that one of them
    has computed is taken from there, bit for bit, and snapshots on the way that are not measured are left out.
    """
    _check(model, method, environments, family)
    recipe = method.adapted(recipe)
    classifier = stage(model, environments, recipe, family, seed)
    training = Training(model, method, environments, recipe, family, seed, first=classifier.steps if classifier else 0)
    every = math.ceil(training.steps / max(1, snapshots))
    due = stages.due(every, training.steps) if stages else ()
    walk = Walk(training, stages, due)
    if state is not None:
        training.load(state)
    if classifier:
        yield from _debias(Walk(classifier, stages, due, keep_last=True), training, every, state)
    if recipe.debias and training.data.offset is None:
        _leave_alone(training)
    if training.finished:
        yield _snapshot(training)
    walk.begin()
    while not training.finished:
        walk.advance()
        if training.finished or training.step % every == 0:
            yield _snapshot(training, walk.state)


def _check(model: Model, method: Method, environments: Sequence[Environment], family: Family) -> None:
    if len(environments) < method.needs_environments:
        raise BadValue(
            f"{method.title} got {len(environments)} training environment and needs at least "
            f"{method.needs_environments}: with one there is nothing to be invariant across"
        )
    if isinstance(model.head, torch.nn.Linear) and model.head.out_features != family.outputs:
        raise BadValue(f"the model has {model.head.out_features} outputs; {family} needs {family.outputs}")


def _debias(walk: Walk, training: Training, every: int, state: Mapping[str, Tensor] | None) -> Iterator[Snapshot]:
    """Train the environment classifier, then offset the training that follows; nothing where this is done already."""
    classifier, earlier = walk.training, part(state or {}, DEBIASING)
    if state is not None and not earlier:
        return
    if earlier:
        classifier.load(earlier)
    walk.begin()
    while not classifier.finished:
        walk.advance()
        training.loss = classifier.loss
        if classifier.step % every == 0:
            yield _first(classifier, training)
    data = training.data
    no_shift = torch.zeros(len(data.y), data.family.parameters)
    offset = walk.derived("offset", lambda: from_leader(lambda: biased_expert(classifier.model, data), no_shift))
    training.offset_by(offset)


def _leave_alone(training: Training) -> None:
    """Without an offset, the penalty gets the weight and the warm-up that it has without debiasing."""
    method = training.method.alone()
    if method != training.method:
        training.method = method
        training.switch = training.first + round(SHORT["warmup"] * (training.steps - training.first))


def _first(classifier: Training, training: Training) -> Snapshot:
    """While the environment classifier learns, the model is as it was."""
    return Snapshot(
        classifier.step,
        training.steps,
        training.loss,
        training.current(),
        False,
        lambda: training.state() | {f"{DEBIASING}{name}": tensor for name, tensor in classifier.state().items()},
        trained=False,
    )


def _snapshot(training: Training, stage: str = "") -> Snapshot:
    model, data = training.current(), training.data
    missing = training.recipe.debias and data.offset is None
    note = no_offset(data.environments, data.family) if missing else ""
    done = training.finished
    return Snapshot(training.step, training.steps, training.loss, model, done, training.state, note, stage=stage)
