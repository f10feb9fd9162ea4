"""From environments to a trained model and its history."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from invariance.core.environment import Environment
from invariance.core.errors import Diverged, UnknownName
from invariance.core.families import Family
from invariance.core.inputs import Pixels, StoredRows
from invariance.core.seeding import generator
from invariance.core.shipment import mapped
from invariance.estimators import defaults
from invariance.estimators.canonical import without_names
from invariance.estimators.network import Features, build
from invariance.evaluation.scores import Scores, validate
from invariance.methods.base import Method
from invariance.models.base import Model
from invariance.recipes.recipe import Recipe
from invariance.training.selection import Checkpoint
from invariance.training.train import Snapshot, train

ENGINES = ("local", "ray")
CHECKPOINTS = 10
MAX_ROWS, MAX_IMAGES = 20_000, 500
"""Training samples that a checkpoint is evaluated on; an image costs as much as thousands of rows."""

Watch = Callable[[Checkpoint], None]


@dataclass(frozen=True, eq=False)
class Trained:
    """A model and its checkpoints; ``states`` are the weights at each checkpoint, if they were on_validation.

    ``note`` says so where debiasing found nothing to remove.
    """

    model: Model
    history: tuple[Checkpoint, ...]
    states: tuple[dict[str, Tensor], ...]
    note: str = ""

    def at(self, step: int) -> Model:
        """The model as it was after ``step`` updates."""
        if self.states:
            steps = [checkpoint.step for checkpoint in self.history]
            self.model.load_state_dict(self.states[steps.index(step)])
        return self.model


@dataclass(frozen=True, eq=False)
class Fit:
    """A model to be trained: by which method, where, and where its checkpoints are evaluated beside."""

    method: Method
    environments: tuple[Environment, ...]
    validation: tuple[Environment, ...] = ()


@dataclass(frozen=True, eq=False)
class Learner:
    """Everything that decides a model but its data and its method, and the engine that trains several."""

    family: Family
    hidden: tuple[int, ...]
    features: Features | None
    given: defaults.GivenRecipe
    """The recipe, its name, or changes to the default one."""
    seed: int
    device: torch.device
    engine: str = "local"

    def recipe(self, method: Method, environments: Sequence[Environment]) -> Recipe:
        """How a method is trained on these environments."""
        linear = not self.hidden and self.features is None
        return defaults.recipe_for(self.given, method, environments, linear=linear)

    def fit(
        self,
        method: Method,
        environments: Sequence[Environment],
        validation: Sequence[Environment] = (),
        *,
        checkpoints: int = CHECKPOINTS,
        keep: bool = False,
        watch: Watch = lambda checkpoint: None,
    ) -> Trained:
        """Train on some environments; checkpoints are evaluated there and on ``validation``."""
        seed, family = self.seed, self.family
        model = build(
            environments, family.outputs, hidden=self.hidden, features=self.features, seed=seed, seen=method.seen
        )
        _start_at_the_mean(model, environments, family)
        model = model.to(self.device)
        max_rows = MAX_IMAGES if isinstance(environments[0].x, Pixels) else MAX_ROWS
        own, held_out = (held(subsample(*each, seed)) for each in ((environments, max_rows), (validation, MAX_ROWS)))
        history: list[Checkpoint] = []
        states: list[dict[str, Tensor]] = []
        recipe, note = self.recipe(method, environments), ""
        places = without_names(environments)
        for snapshot in train(model, method, places, recipe, family=family, seed=seed, snapshots=checkpoints):
            model, note = snapshot.model, snapshot.note
            history.append(_measure(snapshot, own, held_out, family))
            if keep:
                states.append({k: v.detach().clone() for k, v in model.state_dict().items()})
            watch(history[-1])
        return Trained(model.eval(), tuple(history), tuple(states), note)

    def fit_all(self, fits: Sequence[Fit], *, checkpoints: int = CHECKPOINTS) -> Iterator[Trained | Diverged]:
        """The model of each, or how it diverged: one after another here, or all at once on a Ray cluster."""
        if self.engine not in ENGINES:
            raise UnknownName.of("engine", self.engine, ENGINES)
        if self.engine == "local":
            return (_fitted((self, checkpoints), fit) for fit in fits)
        return iter(mapped(_fitted, (self, checkpoints), fits))


def _fitted(learner: tuple[Learner, int], fit: Fit) -> Trained | Diverged:
    own, checkpoints = learner
    try:
        return own.fit(fit.method, fit.environments, fit.validation, checkpoints=checkpoints)
    except Diverged as error:
        return error


def _start_at_the_mean(model: Model, environments: Sequence[Environment], family: Family) -> None:
    """Start at the outputs of the best constant, so that a rare class is not learned first of all."""
    if not family.labels or not isinstance(model.head, nn.Linear):
        return
    shares = defaults.class_shares(environments, family).clamp(min=1e-6).log()
    with torch.no_grad():
        model.head.bias.copy_(shares[1:] - shares[:1] if family.outputs == 1 else shares - shares.mean())


def subsample(environments: Sequence[Environment], rows: int, seed: int) -> list[Environment]:
    """At most about ``rows`` rows in all, and no more of any environment than its equal share."""
    quota = max(1, rows // max(1, len(environments)))
    return [e if len(e) <= quota else e.take(_permutation(e, seed)[:quota]) for e in environments]


def held(environments: list[Environment]) -> list[Environment]:
    """The same with rows of a table's file in memory, so that they are read once; images stay in their file."""
    return [replace(e, x=e.x.tensor()) if type(e.x) is StoredRows else e for e in environments]


def validation_split(
    environments: Sequence[Environment], share: float, seed: int
) -> tuple[list[Environment], list[Environment]]:
    """Training rows, and a ``share`` of each environment's rows for validation; a single row is for training."""
    train, validation = [], []
    for e in environments:
        size = min(len(e) - 1, max(1, round(share * len(e))))
        order = _permutation(e, seed)
        train.append(e.take(order[size:].sort().values) if size else e)
        validation += [e.take(order[:size].sort().values)] if size else []
    return train, validation


def _permutation(e: Environment, seed: int) -> Tensor:
    return torch.randperm(len(e), generator=generator(seed, "apart", e.name))


def _measure(snapshot: Snapshot, train: list[Environment], validation: list[Environment], family: Family) -> Checkpoint:
    on_train = validate(snapshot.model, train, family)
    on_validation = validate(snapshot.model, validation, family) if validation else on_train
    return Checkpoint(
        snapshot.step,
        snapshot.loss,
        on_validation.collapsed,
        on_train.scores,
        on_validation.scores,
        Scores({}),
        risk=on_validation.risk,
        homogeneity=on_validation.homogeneity,
    )
