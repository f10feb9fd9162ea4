"""IRMv0: the gradient by the whole head vanishes in every environment."""

from typing import ClassVar, final

from pydantic.dataclasses import dataclass
from torch import Tensor

from invariance.core.batch import Batch
from invariance.core.fields import STRICT
from invariance.methods.base import Estimator, PenalisedMethod, squared_norm
from invariance.methods.heads import gradients
from invariance.models.base import Model
from invariance.recipes.presets import Preferences
from invariance.recipes.search import OneOf, SearchSpace


@final
@dataclass(frozen=True, config=STRICT)
class IRMv0(PenalisedMethod):
    r"""min  mean_e R^e + γ mean_e ‖∇_w R^e‖²,   ∇_w R^e = mean_e(r ⊗ [z, 1])

    Unlike IRMv1's, this penalty depends on how scale is shared between θ and w: φ → cφ, w → w/c leaves every
    output and multiplies the weights' part by c².
    """

    title: ClassVar[str] = "IRMv0"
    risk_alone_before: ClassVar[bool] = True
    formula: ClassVar[str] = "min_{w,θ} mean_e [ R^e + γ ‖∇_w R^e‖² ]"
    citation: ClassVar[str] = "Zhang et al., What is missing in IRM training and evaluation?, ICLR 2023"
    preferences: ClassVar[Preferences] = {
        "short": {"lr": 5e-3, "epochs": 18, "warmup": 0.25},
        "two-phase": {"penalty_batch_size": 1024, "epochs": 24, "warmup": 1 / 3, "schedule": "decay"},
    }
    search: ClassVar[SearchSpace] = {**PenalisedMethod.search, "objective.estimator": OneOf(("squared", "split"))}
    profiles: ClassVar[Preferences] = {
        **PenalisedMethod.profiles,
        "two-phase": {"gamma": 1e4, "gamma_before": 0.0, "estimator": "split"},
    }
    estimator: Estimator = "squared"
    """``squared`` squares the estimated gradient; ``split`` multiplies those of two halves: unbiased, noisier."""

    def penalty(self, batch: Batch, model: Model, z: Tensor, f: Tensor) -> Tensor:
        def gradient(batch: Batch, z: Tensor, f: Tensor) -> Tensor:
            return gradients(batch, model.head, z, f)

        return self.reduce(squared_norm(self.estimator, batch, gradient, z, f))
