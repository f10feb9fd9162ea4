"""Linear models in the units of their inputs: coefficients, and what each column contributes to a prediction."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from invariance.estimators.network import Standard
from invariance.models.base import Model


class Coefficients(NamedTuple):
    """f = weight·x + intercept, [K, inputs] and [K], in double precision; ``centre`` [inputs] is the training mean."""

    weight: NDArray[np.float64]
    intercept: NDArray[np.float64]
    centre: NDArray[np.float64]

    def contributions(self, x: NDArray[Any], columns: Sequence[tuple[str, slice]]) -> NDArray[np.float64]:
        """What each column adds to each output, against the mean training row, [n, K, columns]."""
        terms = (x - self.centre)[:, None, :] * self.weight  # [n, K, inputs]
        return np.stack([terms[:, :, place].sum(2) for _, place in columns], axis=2)

    def scaled(self, scale: float, mean: float) -> "Coefficients":
        """Of mean + scale·f."""
        return Coefficients(scale * self.weight, mean + scale * self.intercept, self.centre)


def coefficients(module: Model) -> Coefficients:
    """Of a linear model with standardised inputs."""
    standard = next(part for part in module.modules() if isinstance(part, Standard))
    centre = standard.get_buffer("mean").detach()

    def outputs(x: Tensor) -> Tensor:
        return module(x.unsqueeze(0)).squeeze(0)

    weight = torch.autograd.functional.jacobian(outputs, centre).double().cpu()  # [K, inputs]; exact: f is affine
    with torch.no_grad():
        intercept = outputs(centre).double().cpu() - weight @ centre.double().cpu()
    return Coefficients(weight.numpy(), intercept.numpy(), centre.double().cpu().numpy())
