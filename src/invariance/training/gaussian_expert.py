r"""The biased expert of a number: a Gaussian, with a mean and a precision.

Let y given x and e be Gaussian with mean μ_e(x) and variance V_e. Its natural parameters are μ_e/V_e and 1/V_e. What
varies with x in μ_e/V_e, without its mean over environments, is the interaction: how log P(y | x, e) differs. Its
leading principal components are the *cue statistic* s. What s says about y is fitted by least squares in each
environment, where for classes it is counted:

    s | y, e ~ N(a_e y + b_e, Σ_e),   so   log P(s | y, e) = y η₁ − y² η₂ / 2 + terms without y,
    η₁ = a_eᵀ Σ_e⁻¹ (s − b_e),   η₂ = a_eᵀ Σ_e⁻¹ a_e.

If s and the rest are independent given y, a product of Gaussians gives P(y | x, e), and natural parameters add:

    μ_e/V_e = f/v + η₁ + β₁[e],   1/V_e = 1/v + η₂ + β₂[e],

where f is the invariant prediction, v the variance of y around it, and β the prior shift, with mean 0 over
environments. So all but f is known. In units of v the model has the natural parameters (f, 1), and the expert has

    o = v (η₁ + β₁, η₂ + β₂).
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from invariance.core.batch import Batch
from invariance.evaluation.scores import outputs
from invariance.models.base import Model
from invariance.training.cue_states import KEPT
from invariance.training.environment_heads import (
    Heads,
    by_environment,
    features,
    inputs_within,
    mixed,
    regression_heads,
)
from invariance.training.interaction import (
    LEVEL,
    Posterior,
    environment_known,
    evidence,
    regression_p_value,
    weights,
)

MAX_CUES = 6
"""No more principal components than this."""


class Units(NamedTuple):
    """Mean and standard deviation of the targets of all rows."""

    mean: float
    deviation: float


def units(data: Batch) -> Units:
    """Of the targets, by weights."""
    mean = data.pooled_mean(data.y.double())
    variance = data.pooled_mean((data.y.double() - mean).square())
    return Units(float(mean), float(variance.sqrt().clamp(min=1e-12)))


def gaussian_offset(classifier: Model, data: Batch) -> Tensor | None:
    """o of every row for numbers, [n, 2]; None where no cue is found."""
    mean, deviation = units(data)
    data = replace(data, y=(data.y.double() - mean) / deviation)
    variance = regression_heads(features(classifier, data), data).variance
    h = confirmed(classifier, data)
    if h is None:
        return None
    first, second = likelihood(cue_statistic(h), data)
    precision = max(1.0, float((1 / variance - second).mean()))  # 1/v, at least that of a constant
    shift = (h - (first - first.mean(1, keepdim=True))).mean(0)  # β₁
    own = (first + shift).gather(1, data.environment.unsqueeze(1)).squeeze(1) / precision
    more = (1 / variance / precision - 1)[data.environment]
    return torch.stack([deviation * own + mean * more, more], 1).to(torch.get_default_dtype())


def confirmed(classifier: Model, data: Batch) -> Tensor | None:
    """An interaction h_e(x) that held-out rows confirm, [n, E].

    Means must differ: noise of another variance gives an interaction, too, and is no cue. And y must tell the
    environment beside x, unless x tells it alone: heads that differ because they extrapolate badly do not pass that.
    """
    common = outputs(classifier, data.x)[:, data.environments :].double().log_softmax(1)  # log P(e | x)
    x = inputs_within(data) if environment_known(common, data) else None
    heads = regression_heads(features(classifier, data) if x is None else x, data)
    if regression_p_value(heads.mean, data) >= LEVEL:
        return None
    natural = heads.mean / heads.variance
    h = natural - natural.mean(1, keepdim=True)
    return h if x is not None or evidence(gaussian_posterior(common, heads, h), data).p_value < LEVEL else None


def gaussian_posterior(common: Tensor, heads: Heads, h: Tensor) -> Posterior:
    """log P(e | x, y) of every row as log P(e | x) + slope·(y − E[y | x]) h_e(x), a polynomial in y.

    Of y, only what the inputs do not say: then errors of P(e | x) do not look like an interaction.
    """
    expected = (common.exp() * heads.mean).sum(1, keepdim=True)
    return Posterior(common, torch.stack([-expected * h, h, torch.zeros_like(h)], 1))


def cue_statistic(h: Tensor) -> Tensor:
    """s: the leading principal components of h [n, E] that keep ``KEPT`` of its variance, scaled to 1, [n, d]."""
    h = h - h.mean(0)
    variance, directions = torch.linalg.eigh(h.T @ h / len(h))
    variance, directions = variance.flip(0).clamp(min=0), directions.flip(1)
    kept = min(int((variance.cumsum(0) < KEPT * variance.sum()).sum()) + 1, MAX_CUES)
    return h @ directions[:, :kept] / variance[:kept].sqrt().clamp(min=1e-12)


def likelihood(s: Tensor, data: Batch) -> tuple[Tensor, Tensor]:
    """η₁ [n, E] and η₂ [E] of P(s | y, e), from weighted moments, mixed with ``PRIOR`` rows of all environments."""
    u = torch.cat([torch.ones_like(s[:, :1]), data.y.unsqueeze(1), s], 1)  # [n, 2 + d]
    count = by_environment(weights(data), data).view(-1, 1, 1)
    moments = mixed(data.outer_mean(u, u), count)
    mean = moments[:, 0, 1:]  # of (y, s), [E, 1 + d]
    covariance = moments[:, 1:, 1:] - mean.unsqueeze(2) * mean.unsqueeze(1)
    a = covariance[:, 1:, 0] / covariance[:, :1, 0].clamp(min=1e-12)  # [E, d]
    b = mean[:, 1:] - a * mean[:, :1]
    noise = covariance[:, 1:, 1:] - a.unsqueeze(2) * covariance[:, :1, 1:]
    noise = noise + 1e-6 * torch.eye(s.shape[1], dtype=s.dtype)
    weighted = torch.linalg.solve(noise, a)  # Σ⁻¹ a, [E, d]
    return s @ weighted.T - (b * weighted).sum(1), (a * weighted).sum(1)
