"""Temperature scaling: logits divided by one number, so that confidence is compared fairly (Guo et al. 2017)."""

import math
from typing import Any

import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from torch import Tensor

from invariance.core.families import Family

MAX_LOG_TEMPERATURE = 4.0
MAX_ROWS = 8192


def tempered(f: Tensor, y: Tensor, family: Family, temperature: float | None = None) -> tuple[NDArray[Any], float]:
    """Predictions from outputs ``f`` [n, K], and the temperature, the best one for these rows unless it is given.

    They are probabilities [n, classes], or numbers [n], which have no temperature.
    """
    f = f.double()
    if not family.labels:
        return f[:, 0].numpy(), 1.0
    if temperature is None:
        stride = -(-len(f) // MAX_ROWS)
        some, labels = f[::stride], y[::stride].double() if family.outputs == 1 else y[::stride]
        bounds = (-MAX_LOG_TEMPERATURE, MAX_LOG_TEMPERATURE)
        found = minimize_scalar(
            lambda log_t: float(family.loss(some / math.exp(log_t), labels).mean()), bounds=bounds, method="bounded"
        )
        temperature = math.exp(found.x)
    scaled = f / temperature
    if family.outputs == 1:
        scaled = torch.cat([torch.zeros_like(scaled), scaled], dim=1)
    return torch.softmax(scaled, 1).numpy(), temperature
