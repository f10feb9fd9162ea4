"""IRM-Game: one head per environment, a shared representation, and everybody plays in turn."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import ClassVar, Literal, final

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor, nn
from torch.nn import functional

from invariance.core.batch import Batch
from invariance.core.errors import BadValue
from invariance.core.families import Gaussian
from invariance.core.fields import STRICT, NonNegative, Positive, Share
from invariance.core.homogeneity import homogeneity
from invariance.methods.base import Method, Move, Player, risk_alone
from invariance.methods.heads import gradients, preconditioned, store, vector
from invariance.models.base import Model
from invariance.recipes.presets import Preferences
from invariance.recipes.schedules import Clock
from invariance.recipes.search import LogRange, Range, SearchSpace


class Ensemble(nn.Module):
    """The mean of one head per environment; the mean of linear heads is computed as one."""

    def __init__(self, heads: list[nn.Module]) -> None:
        super().__init__()
        self.heads = nn.ModuleList(heads)

    def forward(self, z: Tensor) -> Tensor:
        """Outputs, [n, K]."""
        linear_heads = [head for head in self.heads if isinstance(head, nn.Linear)]
        if len(linear_heads) < len(self.heads):
            return torch.stack([head(z) for head in self.heads]).mean(0)
        weight = torch.stack([head.weight for head in linear_heads]).mean(0)
        biases: list[Tensor] = [head.bias for head in linear_heads if head.bias is not None]
        return functional.linear(z, weight, torch.stack(biases).mean(0) if biases else None)


@final
@dataclass(frozen=True, config=STRICT)
class IRMGame(Method):
    r"""w_e ∈ argmin R^e(mean_j w_j∘θ) for every e,   θ ∈ argmin mean_e R^e(mean_j w_j∘θ)

    The V-game: θ first and then every head, the last one first, each going down on its own risk alone. ``order`` says
    whether all of them move in an update, or one in turn. θ moves at ``feature_rate`` times the heads' learning rate;
    at 0 it stays as the warm-up has left it, and the heads play a game with a fixed representation.

    In a round of small steps the ensemble moves by −(η/E) Σ_e ∇R^e, which is ERM's step. What differs from ERM comes
    of long steps: heads run apart where environments disagree, and the ensemble swings there, and there alone. With
    ``relaxation`` ω a linear head moves ω times as far as a best response would, in a metric B that bounds the
    curvature of the risk (Böhning and Lindsay 1988), with z₁ = [z, 1] and c the largest curvature of the loss:

        w_e ← w_e − ω E (B + λI)⁻¹ ∇_w R^e,   B = c mean(z₁ ⊗ z₁),   λ = damping · mean(diag B)

    The factor E makes the ensemble move by what the head e would like. Beyond ω = 2 the swings of a classifier settle
    in a cycle; those of a regression would diverge, and have ω = 2 at most.

    Invariance is a moment of the swing, and a stopping rule takes it. After the warm-up and every update,
    ``stop_below`` asks for the training accuracy (the authors' rule), ``stop_at`` for the p-value of a homogeneity test
    of the environments' losses and calibration: both look at the training samples of the batch and at no other. A game
    that does not reach ``stop_at`` ends with the heads that had the highest p-value.
    """

    title: ClassVar[str] = "IRM-Game"
    formula: ClassVar[str] = "w_e ∈ argmin R^e(mean_j w_j∘θ) ∀e,  θ ∈ argmin mean_e R^e(mean_j w_j∘θ)"
    citation: ClassVar[str] = "Ahuja et al., Invariant risk minimization games, ICML 2020"
    differs: ClassVar[tuple[str, ...]] = (
        "Every player moves once per batch; the authors' code moves one player per batch (order='turns').",
        "The ensemble is the mean of the heads for any number of them; the authors' code has a fixed ½.",
        "Heads are the last linear layer, without dropout; the authors' have three layers.",
        "By the paper's recipes there is no stopping rule. stop_below, the authors' rule, takes the training accuracy "
        "of the batch; theirs takes that of all training samples.",
        "With the recipe two-phase features are learned by ERM and then fixed, heads move in turn, 5 times as far as "
        "best responses in large batches, and stop where a homogeneity test tells the training environments apart "
        "least (stop_at); the authors stop at a training accuracy that they read off a plot.",
    )
    preferences: ClassVar[Preferences] = {
        "full-batch": {"lr": 2.5e-4},
        "small-batch": {"lr": 2.5e-4},
        "two-phase": {"penalty_batch_size": 50_000, "penalty_dropout": 0.0, "epochs": 66, "warmup": 1 / 11},
        "two-phase+all-samples": {"epochs": 274, "warmup": 214 / 274},
        "debiased": {"lr": 2e-3},
    }
    profiles: ClassVar[Preferences] = {
        "two-phase": {
            "warm_up": "erm",
            "order": "turns",
            "feature_rate": 0.0,
            "relaxation": 5.0,
            "stop_at": 0.5,
        },
    }
    search: ClassVar[SearchSpace] = {
        **Method.search,
        "recipe.warmup": Range(0.1, 0.8),
        "method.relaxation": LogRange(1.0, 16.0),
        "method.damping": LogRange(0.1, 10.0),
        "method.stop_at": LogRange(1e-2, 1.0),
    }
    later_fields: ClassVar[tuple[str, ...]] = ("warm_up", "order", "relaxation", "damping", "stop_at")

    l2: NonNegative = 0.0
    """The weight of ‖parameters‖²."""
    feature_rate: NonNegative = 0.1
    """The learning rate of the features over that of the heads; 0: they stay. A tenth, as in the authors' code."""
    stop_below: Share | None = None
    """Stop once the training accuracy of a batch is below this. None: never; the authors use 0.55."""
    warm_up: Literal["game", "erm"] = "game"
    """What is played before the switch: the game, as in the authors' code, or ERM of all players together. Ours."""
    order: Literal["round", "turns"] = "round"
    """Who moves in an update: every player once, or one of them in turn, as in the authors' code."""
    relaxation: Positive | None = None
    """ω, the step of a linear head over that of a best response; None: heads step as the recipe says. Ours."""
    damping: Positive = 1.0
    """λ of this step over the mean curvature. Ours."""
    stop_at: Share | None = None
    """Stop once the homogeneity test of a batch has this p-value, or in the end where it was highest. Ours."""

    def prepare(self, model: Model, environments: int, generator: torch.Generator) -> Model:
        heads = [model.head, *(deepcopy(model.head) for _ in range(environments - 1))]
        if self.relaxation and not all(isinstance(head, nn.Linear) for head in heads):
            raise BadValue("IRM-Game's relaxation needs a linear head; set method.relaxation=null")
        for head in heads[1:]:
            if isinstance(head, nn.Linear):
                nn.init.xavier_uniform_(head.weight, generator=generator)
        model.head = Ensemble(heads)
        if self.stop_at is not None:
            model.memory.register_buffer("heads", torch.zeros_like(vector(model.head).detach()))
            model.memory.register_buffer("p_value", torch.zeros(()))
        return model

    def players(self, model: Model) -> tuple[Player, ...]:
        features = Player("features", tuple(model.features.parameters()))
        heads = model.head.get_submodule("heads").children()
        return (features, *(Player(f"head {e}", tuple(h.parameters())) for e, h in enumerate(heads)))

    def decided_by(self, clock: Clock, *, sliced: bool) -> str | None:
        """A warm-up of ERM is shared between games."""
        return risk_alone(self.l2) if self._warms_up(clock) else None

    def _warms_up(self, clock: Clock) -> bool:
        return self.warm_up == "erm" and not clock.annealed

    def moves(self, model: Model, batch: Batch, clock: Clock, generator: torch.Generator) -> Iterator[Move]:
        """θ, then one head after another, the last one first; in turns, one of these."""
        if self._warms_up(clock):
            yield Move(lambda: batch.risks(model(batch.x)).mean(), self.l2)
            return
        turns = self._turns(batch.environments, clock)
        if None in turns:
            yield Move(lambda: batch.risks(model(batch.x)).mean(), self.l2, ("features",), self.feature_rate)
        if heads := [e for e in turns if e is not None]:
            with torch.no_grad():
                z = model.represent(batch.x)
            for e in heads:
                yield from self._play(model, batch, z, e)

    def _turns(self, environments: int, clock: Clock) -> list[int | None]:
        """Who moves in this update: None is θ, numbers are heads."""
        everybody: list[int | None] = [*([None] if self.feature_rate else []), *reversed(range(environments))]
        if self.order == "round":
            return everybody
        played = clock.step - (clock.switch if self.warm_up == "erm" else 0)
        return [everybody[played % len(everybody)]]

    def _play(self, model: Model, batch: Batch, z: Tensor, e: int) -> Iterator[Move]:
        """Head e moves on the risk of its own environment."""
        own, z_own = batch.only(e), z[batch.rows(e)]

        def loss() -> Tensor:
            return own.risks(model.head(z_own)).mean()

        if self.relaxation is None:
            yield Move(loss, self.l2, (f"head {e}",))
            return
        head = model.head.get_submodule(f"heads.{e}")
        w = self._response(model, head, batch, z, e)
        yield Move(loss, self.l2, (f"head {e}",), rate=0.0)  # the loss is recorded, the step is our own
        store(head, w)

    @torch.no_grad()
    def _response(self, model: Model, head: nn.Module, batch: Batch, z: Tensor, e: int) -> Tensor:
        """w_e − ω E (B + λI)⁻¹ ∇_w R^e, [P]."""
        assert isinstance(head, nn.Linear)  # noqa: S101 - refused in prepare
        assert self.relaxation  # noqa: S101
        omega = min(2.0, self.relaxation) if isinstance(batch.family, Gaussian) else self.relaxation
        own, z_own = batch.only(e), z[batch.rows(e)]
        g = gradients(own, head, z_own, model.head(z_own))[0]
        return vector(head) - omega * batch.environments * preconditioned(batch, head, z, g, self.damping)

    def done(self, model: Model, batch: Batch, clock: Clock) -> bool:
        if not clock.annealed or (self.stop_below is None and self.stop_at is None):
            return False
        if self.stop_below is not None and isinstance(batch.family, Gaussian):
            raise BadValue("IRM-Game's stop_below is a training accuracy; regression has none")
        model.eval()
        with torch.no_grad():
            f = model(batch.x)
        if self.stop_below is not None and batch.pooled_mean(batch.family.score(f, batch.y)) < self.stop_below:
            return True
        return self.stop_at is not None and self._settled(model, f, batch, self.stop_at, last=clock.last)

    def _settled(self, model: Model, f: Tensor, batch: Batch, level: float, *, last: bool) -> bool:
        """Whether nothing tells environments apart. The heads with the highest p-value so far are kept for the end."""
        p_value, highest = _p_value(f, batch), model.memory.get_buffer("p_value")
        if p_value > highest:
            highest.fill_(p_value)
            model.memory.get_buffer("heads").copy_(vector(model.head).detach())
        elif last and highest:
            store(model.head, model.memory.get_buffer("heads"))
        return p_value >= level


def _p_value(f: Tensor, batch: Batch) -> float:
    """Of the homogeneity test; 0 where the model is no more than a constant, which is the same everywhere."""
    batch = replace(batch, x=f).to(torch.device("cpu"))  # the test is in 64 bits, which not every device has
    collapsed = batch.pooled_mean(torch.full((len(f),), float(batch.family.collapsed(f.cpu(), batch.y))))
    return 0.0 if collapsed > 0.5 else homogeneity(f.cpu(), batch)  # the same on all ranks
