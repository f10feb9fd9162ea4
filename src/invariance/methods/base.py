r"""What a method minimises, and who moves.

A training step is a sequence of *moves*. A :class:`Move` says: these players go down on this loss. Recipes see
only moves, whose loss they may evaluate as often as they like, so every recipe runs every method.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass as record
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar, Literal, Self

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from invariance.core.batch import Batch
from invariance.core.fields import STRICT, NonNegative
from invariance.models.base import Model
from invariance.recipes.presets import Preferences
from invariance.recipes.recipe import Recipe
from invariance.recipes.schedules import Clock
from invariance.recipes.search import IntRange, LogRange, Range, SearchSpace

Estimator = Literal["squared", "split"]
Divisor = Literal["gamma", "1+gamma", "nothing"]


@record(frozen=True, eq=False)
class Player:
    """Parameters that move together: at ``rate`` times the learning rate, with l2 or without."""

    name: str
    parameters: tuple[nn.Parameter, ...]
    rate: float = 1.0
    l2: bool = True


@record(frozen=True, eq=False)
class Move:
    """The named players (all, if none is named) go down on ``loss`` + ``l2``·‖parameters‖².

    Their learning rates are multiplied by ``rate``.
    """

    loss: Callable[[], Tensor]
    l2: float = 0.0
    players: tuple[str, ...] = ()
    rate: float = 1.0


@dataclass(frozen=True, config=STRICT)
class Method(ABC):
    """A method. Its fields are its hyper-parameters; what it must remember lives in the model."""

    title: ClassVar[str]
    formula: ClassVar[str]
    citation: ClassVar[str]
    differs: ClassVar[tuple[str, ...]] = ()
    """Numbered differences from the method's paper or its authors' code."""
    preferences: ClassVar[Preferences] = {}
    """Fields of a recipe that the method changes, by protocol: its authors' choice for ``full-batch`` and
    ``small-batch``, ours for the others."""
    search: ClassVar[SearchSpace] = {"recipe.lr": LogRange(1e-4, 1e-2), "recipe.epochs": IntRange(8, 32)}
    """Where ``tune`` looks for its fields and for those of its recipe. It widens a range that does not hold what the
    field is by a recipe on a data set."""
    profiles: ClassVar[Preferences] = {}
    """Its own fields that change, by the recipe's protocol; otherwise they are the paper's."""
    later_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that stored runs name only where they differ from their default."""
    needs_environments: ClassVar[int] = 2
    oracle: ClassVar[bool] = False
    """Whether the method is given inputs without their spurious part."""

    @property
    def note(self) -> str:
        """What somebody who trains it with these fields should know."""
        return ""

    def adapted(self, recipe: Recipe) -> Recipe:
        """The recipe as the method can use it, whatever that recipe is called."""
        return recipe

    def alone(self) -> Self:
        """The method as it is where debiasing finds nothing to remove."""
        return self

    def seen(self, x: Tensor) -> Tensor:
        """The inputs as the method lets the model see them."""
        return x

    def prepare(self, model: Model, environments: int, generator: torch.Generator) -> Model:
        """Give the model what the method needs: masks, heads, memory."""
        return model

    def players(self, model: Model) -> tuple[Player, ...]:
        """Who may move."""
        return (Player("model", tuple(model.parameters())),)

    @abstractmethod
    def moves(self, model: Model, batch: Batch, clock: Clock, generator: torch.Generator) -> Iterator[Move]:
        """The moves of one step, in order; code after a ``yield`` runs when that move has been made."""

    def decided_by(self, clock: Clock, *, sliced: bool) -> str | None:
        """What decides an update beside the model, its batch and the recipe; None where that is not known.

        Equal texts say that updates are equal bit for bit, and runs then share them (`training/stages.py`). ``sliced``
        says that the batch goes through the features in slices.
        """
        return None

    def plain_name(self, name: str) -> str | None:
        """What a part of a state is called where the method prepares nothing, for runs of other methods that share it.

        None says that there is no such part, and that this one is as it was prepared while updates are shared.
        """
        return name

    def measure(self, model: Model, batch: Batch, z: Tensor, f: Tensor) -> Tensor | None:
        """The penalty's value, without its weight, for the records; None where there is no penalty."""
        return None

    def measured_by(self) -> str:
        """What decides the value of :meth:`measure` beside the model and the batch; runs share what they measure."""
        return f"{type(self).__module__} {self}"

    def done(self, model: Model, batch: Batch, clock: Clock) -> bool:
        """Whether to stop here, before the recipe's last update."""
        return False


@dataclass(frozen=True, config=STRICT)
class AnnealedMethod(Method):
    r"""(R + γ_t P + l2·‖parameters‖²) / divisor_t,  R and P averaged over environments.

    ``gamma`` is the penalty's weight γ after the switch, ``gamma_before`` its weight before. ``divide_by`` says
    what the whole sum is divided by, so that its gradients keep one size. ``reduction`` says whether
    environments are averaged or added. ``gamma_alone`` is γ in a run that was to be debiased and has no logit offset;
    None is ``gamma``.
    """

    search: ClassVar[SearchSpace] = {
        "method.gamma": LogRange(1e1, 1e6),
        **Method.search,
        "recipe.warmup": Range(0.1, 0.8),
    }
    profiles: ClassVar[Preferences] = {
        "debiased": {"gamma": 1.0, "gamma_alone": 1e6},
        "two-phase": {"gamma_before": 0.0},
    }
    later_fields: ClassVar[tuple[str, ...]] = ("gamma_alone",)
    risk_alone_before: ClassVar[bool] = False
    """Whether γ_t is all that an update takes from the clock, and one with γ_t = 0 is ERM's; then runs share them."""

    gamma: NonNegative = 1e6
    """The weight γ of the penalty once it has set in. 10⁶ is what the ICLR 2023 paper prints."""
    gamma_before: NonNegative = 1.0
    """Its weight before that, during the warm-up. As in the code of Arjovsky et al."""
    divide_by: Divisor = "gamma"
    """What the whole sum is divided by, so that gradients keep their size. As in the code of Arjovsky et al."""
    l2: NonNegative = 1.10794568e-3
    """The weight of ‖parameters‖². As in the published Colored-MNIST command of Arjovsky et al."""
    reduction: Literal["mean", "sum"] = "mean"
    """Whether environments are averaged or added. As in the code of Arjovsky et al."""
    gamma_alone: NonNegative | None = None
    """γ in a run that was to be debiased and found no cue; None is ``gamma``. Ours."""

    def alone(self) -> Self:
        """With ``gamma_alone``, if there is one."""
        return self if self.gamma_alone is None else replace(self, gamma=self.gamma_alone)

    def gamma_at(self, clock: Clock) -> float:
        """γ_t."""
        return self.gamma if clock.annealed else self.gamma_before

    def divisor(self, clock: Clock) -> float:
        """What the objective is divided by at this moment."""
        gamma = self.gamma_at(clock)
        return {"gamma": max(gamma, 1.0), "1+gamma": 1.0 + gamma, "nothing": 1.0}[self.divide_by]

    def decided_by(self, clock: Clock, *, sliced: bool) -> str | None:
        """γ_t; without a weight, the penalty's fields do not count."""
        if not self.risk_alone_before:
            return None
        gamma = self.gamma_at(clock)
        if not gamma:
            return risk_alone(self.l2, self.reduction)
        return _penalised(self, gamma)

    def measured_by(self) -> str:
        """All fields but γ."""
        return _penalised(self, 1.0)

    def combine(self, risks: Tensor, penalty: Callable[[], Tensor], clock: Clock) -> Tensor:
        """(R + γ_t P) / divisor_t; a penalty without weight is not computed."""
        gamma = self.gamma_at(clock)
        risk = self.reduce(risks)
        return (risk + gamma * penalty() if gamma else risk) / self.divisor(clock)

    def reduce(self, v: Tensor) -> Tensor:
        """One number from one number per environment."""
        return v.mean() if self.reduction == "mean" else v.sum()


@dataclass(frozen=True, config=STRICT)
class PenalisedMethod(AnnealedMethod):
    """One move: the whole model descends on risk and penalty."""

    reads_features: ClassVar[bool] = True
    """Whether the penalty looks at z. If not, z comes without columns and a full batch needs no memory for it."""
    standalone: ClassVar[bool] = True
    """Whether the penalty means the same without the rest of the method, in another training loop."""

    @abstractmethod
    def penalty(self, batch: Batch, model: Model, z: Tensor, f: Tensor) -> Tensor:
        """P, from features ``z`` and outputs ``f`` of the batch."""

    def measure(self, model: Model, batch: Batch, z: Tensor, f: Tensor) -> Tensor | None:
        """P."""
        return self.penalty(batch, model, z, f)

    def decided_by(self, clock: Clock, *, sliced: bool) -> str | None:
        """Where features are kept for a penalty to read, slices of them go through the head together."""
        decided = super().decided_by(clock, sliced=sliced)
        return f"{decided}, features kept" if decided and sliced and self.reads_features else decided

    def before(self, model: Model, clock: Clock, generator: torch.Generator) -> None:
        """Draw what stays the same however often the loss is evaluated in this step."""

    def after(self, model: Model, clock: Clock) -> None:
        """Put away what the step found, or put right what it left."""

    def moves(self, model: Model, batch: Batch, clock: Clock, generator: torch.Generator) -> Iterator[Move]:
        """One move."""

        def loss() -> Tensor:
            if self.reads_features:
                z = model.represent(batch.x)
                f = model.head(z)
            else:
                f = model(batch.x)
                z = f[:, :0]
            return self.combine(batch.risks(f), lambda: self.penalty(batch, model, z, f), clock)

        self.before(model, clock, generator)
        yield Move(loss, self.l2 / self.divisor(clock))
        self.after(model, clock)


@lru_cache(64)
def _penalised(method: AnnealedMethod, gamma: float) -> str:
    """What decides an update with a penalty of this weight: all fields, and γ is the same in both phases."""
    return f"{type(method).__module__} {replace(method, gamma=gamma, gamma_before=gamma, gamma_alone=None)}"


def risk_alone(l2: float, reduction: str = "mean") -> str:
    """What decides an update without a penalty."""
    return f"{reduction} of risks, l2 {l2!r}"


def squared_norm(
    estimator: Estimator,
    batch: Batch,
    gradient: Callable[[Batch, Tensor, Tensor], Tensor],
    z: Tensor,
    f: Tensor,
) -> Tensor:
    r"""‖g_e‖² of each environment, [E], where g_e is an average over samples, [E, …].

    ``squared`` is ‖ĝ_e‖²: biased upwards by Var/n. ``split`` is ĝ_e'·ĝ_e'' of the two halves of its rows:
    unbiased, noisier, and possibly negative.
    """
    if estimator == "squared":
        return gradient(batch, z, f).square().flatten(1).sum(1)
    g = gradient(batch.halved(), z, f)
    return (g[0::2] * g[1::2]).flatten(1).sum(1)
