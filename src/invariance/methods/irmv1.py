"""IRMv1: the gradient by a scale on the outputs vanishes in every environment."""

from typing import ClassVar, final

from pydantic.dataclasses import dataclass
from torch import Tensor

from invariance.core.batch import Batch
from invariance.core.fields import STRICT
from invariance.methods.base import Estimator, PenalisedMethod, squared_norm
from invariance.models.base import Model
from invariance.recipes.presets import Preferences
from invariance.recipes.search import OneOf, SearchSpace


def scale_gradient(batch: Batch, z: Tensor, f: Tensor) -> Tensor:
    """s_e = ∂R^e(c·f)/∂c at c = 1, which is mean_e(r·f); [E, 1]."""
    return batch.mean((batch.residual(f) * f).sum(-1, keepdim=True))


@final
@dataclass(frozen=True, config=STRICT)
class IRMv1(PenalisedMethod):
    r"""min  mean_e R^e + γ mean_e s_e²,   s_e = ∂R^e(c·f)/∂c |_{c=1} = mean_e(r·f)

    c is one number in front of all outputs f, and s_e the derivative of the risk in environment e with respect to it.
    Where a head is optimal in every environment, no other scale than 1 is better in any, so every s_e is 0.

    Example:
        >>> IRMv1(gamma=1e4, estimator="split").gamma
        10000.0

    """

    title: ClassVar[str] = "IRMv1"
    risk_alone_before: ClassVar[bool] = True
    formula: ClassVar[str] = "min_{w,θ} mean_e [ R^e + γ (∂R^e(c·f)/∂c at c=1)² ]"
    reads_features: ClassVar[bool] = False
    citation: ClassVar[str] = "Arjovsky et al., Invariant risk minimization, arXiv:1907.02893, 2019"
    differs: ClassVar[tuple[str, ...]] = (
        "γ is 10⁶ as in the ICLR 2023 paper; the authors' code has 91257. With the recipe two-phase it is 10³.",
    )
    search: ClassVar[SearchSpace] = {**PenalisedMethod.search, "method.estimator": OneOf(("squared", "split"))}
    profiles: ClassVar[Preferences] = {
        "debiased": {"gamma": 1.0, "gamma_alone": 1e3},
        "two-phase": {"gamma": 1e3, "gamma_before": 0.0},
    }

    estimator: Estimator = "squared"
    """``squared`` squares the estimated gradient; ``split`` multiplies those of two halves: unbiased, noisier."""

    def penalty(self, batch: Batch, model: Model, z: Tensor, f: Tensor) -> Tensor:
        return self.reduce(squared_norm(self.estimator, batch, scale_gradient, z, f))
