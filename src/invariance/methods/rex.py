"""V-REx: equal risks in every environment."""

from typing import ClassVar, final

from pydantic.dataclasses import dataclass
from torch import Tensor

from invariance.core.batch import Batch
from invariance.core.fields import STRICT
from invariance.methods.base import PenalisedMethod
from invariance.models.base import Model
from invariance.recipes.presets import Preferences


@final
@dataclass(frozen=True, config=STRICT)
class REx(PenalisedMethod):
    r"""min  mean_e R^e + γ Var_e[R^e],   Var the population variance over environments"""

    title: ClassVar[str] = "REx"
    risk_alone_before: ClassVar[bool] = True
    formula: ClassVar[str] = "min_{w,θ} mean_e R^e + γ Var_e[R^e]"
    reads_features: ClassVar[bool] = False
    citation: ClassVar[str] = "Krueger et al., Out-of-distribution generalization via risk extrapolation, ICML 2021"
    differs: ClassVar[tuple[str, ...]] = (
        "Risks are averaged, not added (reduction='sum' adds them).",
        "With two environments the variance is a quarter of the authors' (R¹ − R²)².",
        "With the recipe two-phase γ is 10³, where the ICLR 2023 paper has 10⁶.",
    )

    profiles: ClassVar[Preferences] = {
        "debiased": {"gamma": 1.0, "gamma_alone": 1e3},
        "two-phase": {"gamma": 1e3, "gamma_before": 0.0},
    }

    def penalty(self, batch: Batch, model: Model, z: Tensor, f: Tensor) -> Tensor:
        return batch.risks(f).var(correction=0)
