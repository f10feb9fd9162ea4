"""IRM-Game: one head per environment, a shared representation, and everybody plays in turn."""

from collections.abc import Iterator
from copy import deepcopy
from typing import ClassVar, final

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor, nn
from torch.nn import functional

from invariance.core.batch import Batch
from invariance.core.errors import BadValue
from invariance.core.families import Gaussian
from invariance.core.fields import STRICT, NonNegative, Positive, Share
from invariance.methods.base import Method, Move, Player
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

    The V-game: one round per batch, θ first and then every head, the last one first, each going down on its own risk
    alone. θ moves at ``feature_rate`` times the heads' learning rate.

    After its own move a head leaves the ensemble where its environment wants it, so the ensemble stays between what the
    environments want, which is near ERM; what invariance there is, is a moment of the oscillation. ``stop_below`` stops
    after the warm-up as soon as the ensemble's training accuracy on a batch is below that share (the authors use 0.55).
    """

    title: ClassVar[str] = "IRM-Game"
    formula: ClassVar[str] = "w_e ∈ argmin R^e(mean_j w_j∘θ) ∀e,  θ ∈ argmin mean_e R^e(mean_j w_j∘θ)"
    citation: ClassVar[str] = "Ahuja et al., Invariant risk minimization games, ICML 2020"
    differs: ClassVar[tuple[str, ...]] = (
        "Every player moves once per batch; the authors' code moves one player per batch.",
        "The ensemble is the mean of the heads for any number of them; the authors' code has a fixed ½.",
        "Heads are the last linear layer, without dropout.",
    )
    preferences: ClassVar[Preferences] = {
        "full-batch": {"lr": 2.5e-4},
        "small-batch": {"lr": 2.5e-4},
        "debiased": {"lr": 2e-3},
    }
    search: ClassVar[SearchSpace] = {
        **Method.search,
        "recipe.warmup": Range(0.1, 0.8),
        "method.feature_rate": LogRange(1e-2, 1.0),
        "method.stop_below": Range(0.5, 0.8),
    }

    l2: NonNegative = 0.0
    """The weight of ‖parameters‖²."""
    feature_rate: Positive = 0.1
    """The learning rate of the features over that of the heads."""
    stop_below: Share | None = None
    """Stop once the training accuracy of a batch is below this. None: never; the authors use 0.55."""

    def prepare(self, model: Model, environments: int, generator: torch.Generator) -> Model:
        heads = [model.head, *(deepcopy(model.head) for _ in range(environments - 1))]
        for head in heads[1:]:
            if isinstance(head, nn.Linear):
                nn.init.xavier_uniform_(head.weight, generator=generator)
        model.head = Ensemble(heads)
        return model

    def players(self, model: Model) -> tuple[Player, ...]:
        features = Player("features", tuple(model.features.parameters()), rate=self.feature_rate)
        heads = model.head.get_submodule("heads").children()
        return (features, *(Player(f"head {e}", tuple(h.parameters())) for e, h in enumerate(heads)))

    def moves(self, model: Model, batch: Batch, clock: Clock, generator: torch.Generator) -> Iterator[Move]:
        """E + 1 moves: θ, then one head after another."""
        yield Move(lambda: batch.risks(model(batch.x)).mean(), self.l2, ("features",))
        with torch.no_grad():
            z = model.represent(batch.x)
        for e in reversed(range(batch.environments)):
            yield self._play(model, batch.only(e), z[batch.rows(e)], e)

    def _play(self, model: Model, own: Batch, z: Tensor, e: int) -> Move:
        return Move(lambda: own.risks(model.head(z)).mean(), self.l2, (f"head {e}",))

    def done(self, model: Model, batch: Batch, clock: Clock) -> bool:
        if self.stop_below is None or not clock.annealed:
            return False
        if isinstance(batch.family, Gaussian):
            raise BadValue("IRM-Game's stop_below is a training accuracy; regression has none")
        model.eval()
        with torch.no_grad():
            return bool(batch.pooled_mean(batch.family.score(model(batch.x), batch.y)) < self.stop_below)
