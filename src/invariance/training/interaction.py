r"""How label and environment depend on each other given the inputs, and whether held-out rows confirm it.

Two models can say so. An environment classifier gives L = log P(e | x, y), heads of their own for each environment
give L = log P(y | x, e). Take out the means over labels and over environments:

    L = common(x) + interaction[y, e](x) + terms that do not matter.

By Bayes' rule both have the same interaction. A number y has the statistics T(y) = (1, y, y²) where K classes have K
indicators, so that L = T(y)ᵀ C_e(x) for both: a table for classes, a polynomial for a Gaussian number, whose
interaction is the coefficient of y without its mean over environments.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from invariance.core.batch import Batch
from invariance.recipes.optimiser import LBFGS

LEVEL = 0.01
"""The interaction must improve predictions of held-out rows, at this level."""
FOLD = 5
"""One row in so many is not trained on."""
KNOWN = 0.95
"""Inputs tell the environment where they alone name that of so many held-out rows."""
POWERS = 3
"""T(y) of a number has so many entries."""


class Posterior(NamedTuple):
    """The parts of L of every row."""

    common: Tensor
    """The same for all labels, [n, E]; of log P(y | x, e), the same for all environments, [n, K]."""
    interaction: Tensor
    """Of target and environment, [n, P, E]."""
    of_labels: bool = False
    """Whether L is log P(y | x, e)."""


def at_target(values: Tensor, data: Batch) -> Tensor:
    """T(y)ᵀ values of every row, [n, P, E] or [P, E] → [n, E]: the entry of a class, the polynomial in a number."""
    if data.family.labels:
        labels = data.y.long()
        rows = torch.arange(len(labels), device=labels.device)
        return values[labels] if values.ndim == 2 else values[rows, labels]
    powers = torch.stack([data.y**k for k in range(POWERS)], 1).to(values.dtype)  # [n, P]
    return powers @ values if values.ndim == 2 else (powers.unsqueeze(2) * values).sum(1)


def centred(values: Tensor) -> Tensor:
    """Without the means over labels and over environments, [..., K, E]."""
    values = values - values.mean(-1, keepdim=True)
    return values - values.mean(-2, keepdim=True)


def held_out(data: Batch) -> Tensor:
    """Which rows neither the environment classifier nor a head was trained on, [n]."""
    return torch.cat([torch.arange(n) % FOLD == 0 for n in data.counts])


def environment_known(common: Tensor, data: Batch) -> bool:
    """Whether inputs tell the environment, by the part of log P(e | x, y) that all labels share, [n, E]."""
    return bool((common.argmax(1) == data.environment)[held_out(data)].double().mean() >= KNOWN)


class Evidence(NamedTuple):
    """How much an interaction helps to predict held-out rows."""

    p_value: float
    """The probability that chance alone makes it help as much."""
    gain: float
    """What it adds to the mean log-likelihood of a row, in nats."""


def evidence(found: Posterior, data: Batch, beside: Tensor | None = None) -> Evidence:
    """A likelihood-ratio test of the interaction's slope in held-out rows; a negative slope is none.

    It is tested beside the common part, the frequency of each label and, if there is one, another interaction
    [n, P, E]: covariate shift and label shift are no evidence.
    """
    held = held_out(data)
    rows = data.take(held.nonzero().squeeze(1), tuple(-(-n // FOLD) for n in data.counts))
    found = found._replace(common=found.common[held], interaction=found.interaction[held])
    beside = None if beside is None else beside[held]
    without = fitted(found._replace(interaction=torch.zeros_like(found.interaction)), rows, beside=beside)
    with_it = fitted(found, rows, slope=True, beside=beside)
    if with_it.slope <= 0:
        return Evidence(1.0, 0.0)
    gain = max(without.loss - with_it.loss, 0.0)
    return Evidence(math.erfc(math.sqrt(gain)), gain / float(weights(rows).sum()))


def regression_p_value(means: Tensor, data: Batch) -> float:
    """The same for predictions of a number by ``means`` [n, E]: that of its environment, beside the average of all.

    Environments may have constants of their own.
    """
    common = means.mean(1)
    interaction = means.gather(1, data.environment.unsqueeze(1)).squeeze(1) - common
    held = held_out(data)
    root = weights(data)[held].sqrt()
    constants = functional.one_hot(data.environment, data.environments).double()
    columns = torch.cat([constants, common.unsqueeze(1), interaction.unsqueeze(1)], 1)[held] * root.unsqueeze(1)
    y = (data.y[held] * root).unsqueeze(1)
    without, with_it = (torch.linalg.lstsq(x, y, driver="gelsd").solution for x in (columns[:, :-1], columns))
    if with_it[-1] <= 0:
        return 1.0
    before, after = (float((y - x @ w).square().sum()) for x, w in ((columns[:, :-1], without), (columns, with_it)))
    return math.erfc(math.sqrt(max(0.5 * len(y) * math.log(max(before, 1e-300) / max(after, 1e-300)), 0.0)))


class Fit(NamedTuple):
    """A maximum of the likelihood."""

    loss: float
    slope: float
    shift: Tensor
    """β, how label frequencies differ by environment given the inputs, [P, E]."""


def fitted(found: Posterior, data: Batch, *, slope: bool = False, beside: Tensor | None = None) -> Fit:
    """Maximum likelihood of exp(scale·common + slope·interaction + T(y)ᵀβ_e); without a slope it is 1.

    That is P(e | x, y), or P(y | x, e), up to a factor. An interaction ``beside`` it has a slope of its own.
    """

    def term(values: Tensor) -> Tensor:
        return _term(values, data, of_labels=found.of_labels)

    target = data.y.long() if found.of_labels else data.environment
    own = term(found.interaction)
    other = None if beside is None else term(beside)
    weight = weights(data)
    scales = torch.ones(2 if other is None else 3, dtype=own.dtype, requires_grad=True)
    shift = torch.zeros(found.interaction.shape[1:], dtype=own.dtype, requires_grad=True)

    def loss() -> Tensor:
        logits = scales[0] * found.common + (scales[1] if slope else 1) * own + term(shift)
        if other is not None:
            logits = logits + scales[2] * other
        chosen = logits.log_softmax(1).gather(1, target.unsqueeze(1)).squeeze(1)
        return -(weight * chosen).sum() / weight.sum() + 1e-6 * shift.square().sum()

    minimise(loss, [scales, shift])
    least = float(loss().detach() * weight.sum())
    return Fit(least, float(scales[1].detach()), shift.detach())


def _term(values: Tensor, data: Batch, *, of_labels: bool) -> Tensor:
    """What an interaction [n, P, E], or β [P, E], adds to every row's logit of each environment, or of each label."""
    if not of_labels:
        return at_target(values, data)
    e = data.environment
    return values.T[e] if values.ndim == 2 else values[torch.arange(len(e)), :, e]


def minimise(loss: Callable[[], Tensor], parameters: list[Tensor]) -> None:
    """Move the parameters to a minimum, by L-BFGS."""
    fit = LBFGS(parameters, max_iter=60, line_search_fn="strong_wolfe", tolerance_change=1e-12)

    def closure() -> float:
        fit.zero_grad()
        value = loss()
        value.backward()
        return float(value.detach())

    with torch.enable_grad():
        fit.step(closure)  # type: ignore[no-untyped-call]


def weights(data: Batch) -> Tensor:
    """Weights of the rows, scaled to add up to the effective number of rows."""
    if data.weight is None:
        return torch.ones_like(data.y, dtype=torch.double)
    weight = data.weight.double()
    return weight * (weight.sum() / weight.square().sum())
