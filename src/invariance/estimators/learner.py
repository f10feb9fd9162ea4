"""From environments to a trained model and its history."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from invariance.core.environment import Environment
from invariance.core.families import Family
from invariance.core.inputs import Pixels
from invariance.core.seeding import generator
from invariance.estimators.network import Features, build
from invariance.evaluation.scores import Scores, validate
from invariance.methods.base import Method
from invariance.models.base import Model
from invariance.recipes.recipe import Recipe
from invariance.training.selection import Checkpoint
from invariance.training.train import Snapshot, train

CHECKPOINTS = 10
MAX_ROWS, MAX_IMAGES = 20_000, 500
"""Training samples that a checkpoint is measured on; an image costs as much as thousands of rows."""

Watch = Callable[[Checkpoint], None]


@dataclass(frozen=True, eq=False)
class Trained:
    """A model, and what was measured on the way; ``states`` are the weights at each checkpoint, where kept."""

    model: Model
    history: tuple[Checkpoint, ...]
    states: tuple[dict[str, Tensor], ...]

    def at(self, step: int) -> Model:
        """The model as it was after ``step`` updates."""
        if self.states:
            steps = [checkpoint.step for checkpoint in self.history]
            self.model.load_state_dict(self.states[steps.index(step)])
        return self.model


@dataclass(frozen=True, eq=False)
class Learner:
    """Everything that decides a model but its data and its method."""

    family: Family
    hidden: tuple[int, ...]
    features: Features | None
    recipe: Callable[[Method, Sequence[Environment]], Recipe]
    seed: int

    def fit(
        self,
        objective: Method,
        environments: Sequence[Environment],
        validation: Sequence[Environment] = (),
        *,
        checkpoints: int = CHECKPOINTS,
        keep: bool = False,
        watch: Watch = lambda checkpoint: None,
    ) -> Trained:
        """Train on some environments, measuring there and on ``validation``."""
        seed, family = self.seed, self.family
        model = build(environments, family.outputs, hidden=self.hidden, features=self.features, seed=seed)
        most = MAX_IMAGES if isinstance(environments[0].x, Pixels) else MAX_ROWS
        samples = subsample(environments, most, seed), subsample(validation, MAX_ROWS, seed)
        history: list[Checkpoint] = []
        states: list[dict[str, Tensor]] = []
        recipe = self.recipe(objective, environments)
        for snapshot in train(model, objective, environments, recipe, family=family, seed=seed, snapshots=checkpoints):
            model = snapshot.model
            history.append(_measure(snapshot, *samples, family))
            if keep:
                states.append({k: v.detach().clone() for k, v in model.state_dict().items()})
            watch(history[-1])
        return Trained(model.eval(), tuple(history), tuple(states))


def subsample(environments: Sequence[Environment], rows: int, seed: int) -> list[Environment]:
    """At most about ``rows`` rows in all, and no more of any environment than an equal part of them."""
    most = max(1, rows // max(1, len(environments)))
    return [e if len(e) <= most else e.take(_drawn(e, seed)[:most]) for e in environments]


def validation_split(
    environments: Sequence[Environment], share: float, seed: int
) -> tuple[list[Environment], list[Environment]]:
    """Training rows, and a ``share`` of each environment's rows for validation; one row alone is for training."""
    train, validation = [], []
    for e in environments:
        many = min(len(e) - 1, max(1, round(share * len(e))))
        order = _drawn(e, seed)
        train.append(e.take(order[many:].sort().values) if many else e)
        validation += [e.take(order[:many].sort().values)] if many else []
    return train, validation


def _drawn(e: Environment, seed: int) -> Tensor:
    return torch.randperm(len(e), generator=generator(seed, "apart", e.name)).to(e.y.device)


def _measure(snapshot: Snapshot, train: list[Environment], held: list[Environment], family: Family) -> Checkpoint:
    seen = validate(snapshot.model, train, family)
    kept = validate(snapshot.model, held, family) if held else seen
    return Checkpoint(
        snapshot.step,
        snapshot.loss,
        kept.collapsed,
        seen.scores,
        kept.scores,
        Scores({}),
        risk=kept.risk,
        homogeneity=kept.homogeneity,
    )
