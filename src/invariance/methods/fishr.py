"""Fishr: equal gradient variances in every environment."""

from typing import Annotated, ClassVar, Literal, final

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from invariance.core.batch import Batch
from invariance.core.fields import STRICT
from invariance.methods.base import PenalisedMethod
from invariance.methods.heads import gradient_variances, vector
from invariance.models.base import Model
from invariance.recipes.presets import Preferences
from invariance.recipes.schedules import Clock
from invariance.recipes.search import Range, SearchSpace


def variance_spread(v: Tensor) -> Tensor:
    """‖v_e − mean_e v_e‖² of each environment, [E]."""
    return (v - v.mean(0)).square().sum(1)


@final
@dataclass(frozen=True, config=STRICT)
class Fishr(PenalisedMethod):
    r"""min  mean_e R^e + γ mean_e ‖v_e − v̄‖²,   v_e = Var_{i∈e}[r_i ⊗ [z_i, 1]]

    v_e is the variance of the head's gradient over the samples of e, coordinate by coordinate.

    ``ema`` keeps a moving average of v_e over the steps (0: none). As in the DomainBed version it is divided by
    1 − ema, so that the gradient through the current batch does not depend on it.
    """

    title: ClassVar[str] = "Fishr"
    risk_alone_before: ClassVar[bool] = True
    formula: ClassVar[str] = "min_{w,θ} mean_e [ R^e + γ ‖v_e − mean_e v_e‖² ],  v_e = Var_{i∈e}[∇_w ℓ_i]"
    citation: ClassVar[str] = (
        "Rame et al., Fishr: invariant gradient variances for out-of-distribution generalization, ICML 2022"
    )
    differs: ClassVar[tuple[str, ...]] = (
        "Environments are averaged, not added (reduction='sum' adds them).",
        "The moving average (if any) starts at zero.",
        "γ is 10⁶ as in the ICLR 2023 paper; the authors' code has 91257. With the recipe two-phase it is 3·10³.",
    )

    preferences: ClassVar[Preferences] = {"short": {"lr": 7e-4}}
    search: ClassVar[SearchSpace] = {**PenalisedMethod.search, "method.ema": Range(0.0, 0.95)}
    profiles: ClassVar[Preferences] = {
        "debiased": {"gamma": 1.0, "gamma_alone": 3e3},
        "two-phase": {"gamma": 3e3, "gamma_before": 0.0},
    }

    coordinates: Literal["sum", "mean"] = "sum"
    """Whether the coordinates of the gradient variance are added or averaged, which is γ over their number."""
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The decay of a moving average of the variances over steps; 0 is none."""

    def prepare(self, model: Model, environments: int, generator: torch.Generator) -> Model:
        if self.ema:
            w = vector(model.head).detach()
            model.memory.register_buffer("average", w.new_zeros(environments, len(w)))
            model.memory.register_buffer("current", w.new_full((environments, len(w)), torch.nan), persistent=False)
        return model

    def penalty(self, batch: Batch, model: Model, z: Tensor, f: Tensor) -> Tensor:
        v = gradient_variances(batch, model.head, z, f)
        if self.ema:
            current = model.memory.get_buffer("current")
            if current.isnan().all():  # at θ itself: a recipe may look around it afterwards
                current.copy_(v.detach())
            v = v + self.ema / (1 - self.ema) * model.memory.get_buffer("average")
        return self._spread(v)

    def measure(self, model: Model, batch: Batch, z: Tensor, f: Tensor) -> Tensor:
        """P of these samples alone, without a moving average."""
        return self._spread(gradient_variances(batch, model.head, z, f))

    def _spread(self, v: Tensor) -> Tensor:
        spread = variance_spread(v)
        return self.reduce(spread if self.coordinates == "sum" else spread / v.shape[1])

    def after(self, model: Model, clock: Clock) -> None:
        if self.ema and self.gamma_at(clock):
            model.memory.get_buffer("average").lerp_(model.memory.get_buffer("current"), 1 - self.ema)
            model.memory.get_buffer("current").fill_(torch.nan)
