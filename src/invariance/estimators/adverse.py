r"""The adverse site: the training rows as they would be where effects that vary between sites turn against the model.

A column's *effect* at a site is its coefficient in a model of that site alone, beside what ERM predicts:

    P(y | x, e) ∝ exp(f(x) + δ_e·x + c_e).

Effects are compared by the random-effects model of a meta-analysis (DerSimonian and Laird 1986): they have a mean m and
a deviation τ between sites, beyond what chance explains (Cochran's Q). One more site has an effect within m ± κτ in 19
of 20 cases, with κ the quantile of Student's t for as many sites, times √(1 + 1/E). Where Q is significant, the adverse
site has the end of this range that goes against m, but no more than the reverse, −m. Two sites are enough for it, and
so is a trend that never crosses zero.

The adverse site is made of the training rows, by exponential tilting: weights w ∝ exp(y·Δ·x), scaled to keep the share
of every class, move the effects by Δ. For numbers, where tilting has no bounded weights, the slopes of columns by the
target are compared instead, and columns are moved along the target.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from scipy.stats import chi2
from scipy.stats import t as student
from torch import Tensor

from invariance.core.environment import Environment
from invariance.core.families import Family
from invariance.core.inputs import loaded

LEVEL = 0.05
"""Of the test that no effect varies between sites, over all columns together."""
RANGE = 0.975
"""The quantile that ends the range of one more site."""
MIN_Z = 3.0
"""A column matters if its mean effect is as many standard errors from zero."""
PRIOR_VARIANCE = 4.0
"""Of an effect at one site, for columns of variance 1: keeps effects finite where a site has few rows."""
MAX_COLUMNS, COMPONENTS = 64, 32
"""With more columns, as many principal components take their place."""
NEWTON_STEPS = 15
MIN_WEIGHT = 1e-9
"""Of a row at the adverse site, in units of the largest weight."""


class Effects(NamedTuple):
    """Of every column: the effect's mean, and where the adverse site has it; the test's p-value, [d] each."""

    mean: Tensor
    adverse: Tensor
    p_value: Tensor

    @property
    def varying(self) -> tuple[int, ...]:
        """The columns whose effects vary."""
        return tuple((self.adverse != self.mean).nonzero().squeeze(1).tolist())


@dataclass(frozen=True, eq=False)
class AdverseSite:
    """Training rows with other weights, or other values for numbers; and the columns whose effects vary.

    ``columns`` are empty where principal components or outputs stand for the columns. ``p_value`` is that of the test
    that no effect varies, corrected for the number of columns.
    """

    environments: tuple[Environment, ...]
    columns: tuple[int, ...]
    p_value: float


def adverse_site(environments: Sequence[Environment], family: Family, f: Sequence[Tensor]) -> AdverseSite | None:
    """The adverse site, from ERM's outputs ``f`` [n, K] on rows not trained on; None if no effect varies."""
    x, of_table = _columns(environments, f)
    if family.labels:
        site = _tilted(environments, x, f, family.labels)
    elif of_table:
        site = _moved(environments, x)
    else:
        return None
    if not site.columns:
        return None
    return site if of_table else replace(site, columns=())


def _columns(environments: Sequence[Environment], f: Sequence[Tensor]) -> tuple[list[Tensor], bool]:
    """Standardised columns of every environment, and whether they are those of the table."""
    table = isinstance(environments[0].x, Tensor) and environments[0].x.ndim == 2
    parts = [loaded(e.x).double() for e in environments] if table else [part.double() for part in f]
    sizes = [len(part) for part in parts]
    x = torch.cat(parts)
    x = x - x.mean(0)
    x = x / x.std(0).clamp(min=1e-9)
    if x.shape[1] <= MAX_COLUMNS:
        return list(x.split(sizes)), table
    _, _, directions = torch.linalg.svd(x, full_matrices=False)
    x = x @ directions[:COMPONENTS].T
    return list((x / x.std(0).clamp(min=1e-9)).split(sizes)), False


def _tilted(environments: Sequence[Environment], x: Sequence[Tensor], f: Sequence[Tensor], labels: int) -> AdverseSite:
    """The rows with weights that move effects on the log-odds of each class against the rest."""
    tests = labels if labels > 2 else 1
    shifts, varying, p_value = [], set[int](), 1.0
    for k in range(tests):
        offsets = [_against_rest(part.double(), k) for part in f]
        targets = [(e.y == (k if tests > 1 else 1)).double() for e in environments]
        effects = _compared(*_site_effects(environments, x, targets, offsets), _slopes(x, offsets), tests)
        varying |= set(effects.varying)
        p_value = min(p_value, float(effects.p_value.min()))
        shifts.append(torch.cat(list(x)) @ (effects.adverse - effects.mean))
    by_class = torch.stack(shifts if tests > 1 else [-shifts[0] / 2, shifts[0] / 2], dim=1)  # [n, K]
    weights = _keeping_class_shares(environments, by_class - by_class.mean(1, keepdim=True))
    tilted = tuple(replace(e, weight=weight) for e, weight in zip(environments, weights, strict=True))
    return AdverseSite(tilted, tuple(sorted(varying)), p_value)


def _keeping_class_shares(environments: Sequence[Environment], shifts: Tensor) -> Sequence[Tensor]:
    """Weights ∝ exp of the shift [n, K] of each row's own class, scaled so that every class keeps its share."""
    y = torch.cat([e.y.long() for e in environments])
    before = torch.cat([torch.ones(len(e)).double() if e.weight is None else e.weight.double() for e in environments])
    own = shifts.gather(1, y.unsqueeze(1)).squeeze(1)
    weight = before * (own - own.max()).exp().clamp(min=MIN_WEIGHT)
    for k in y.unique():
        rows = y == k
        weight[rows] *= before[rows].sum() / weight[rows].sum()
    return weight.split([len(e) for e in environments])


def _against_rest(f: Tensor, k: int) -> Tensor:
    """The log-odds of a class, [n]."""
    if f.shape[1] == 1:
        return f[:, 0]
    rest = [other for other in range(f.shape[1]) if other != k]
    return f[:, k] - f[:, rest].logsumexp(1)


def _slopes(x: Sequence[Tensor], offsets: Sequence[Tensor]) -> Tensor:
    """The coefficients of the columns in ERM's output, by least squares, [d]."""
    columns, output = torch.cat(list(x)), torch.cat(list(offsets))
    return torch.linalg.lstsq(columns, (output - output.mean()).unsqueeze(1), driver="gelsd").solution.squeeze(1)


def _site_effects(
    environments: Sequence[Environment], x: Sequence[Tensor], targets: Sequence[Tensor], offsets: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """δ_e of every environment by penalised maximum likelihood, and its sampling variance, [E, d] each."""
    effects, variances = [], []
    for e, columns, y, offset in zip(environments, x, targets, offsets, strict=True):
        z = torch.cat([torch.ones_like(columns[:, :1]), columns], dim=1)
        weight = torch.ones_like(y) if e.weight is None else e.weight.double() / e.weight.double().mean()
        ridge = torch.full((z.shape[1],), 1 / PRIOR_VARIANCE, dtype=z.dtype)
        ridge[0] = 1e-4
        delta, hessian = torch.zeros(z.shape[1], dtype=z.dtype), ridge.diag()
        for _ in range(NEWTON_STEPS):
            p = torch.sigmoid(offset + z @ delta)
            gradient = z.T @ (weight * (p - y)) + ridge * delta
            hessian = (z * (weight * p * (1 - p)).unsqueeze(1)).T @ z + ridge.diag()
            step = torch.linalg.solve(hessian, gradient)
            delta = delta - step * min(1.0, 2 / max(float(step.abs().max()), 1e-9))
            if step.abs().max() < 1e-4:
                break
        information = 1 / torch.linalg.inv(hessian).diagonal()[1:] - 1 / PRIOR_VARIANCE
        effects.append(delta[1:])
        variances.append(1 / information.clamp(min=1e-6))
    return torch.stack(effects), torch.stack(variances)


def _compared(effects: Tensor, variances: Tensor, base: Tensor, tests: int) -> Effects:
    """The random-effects model of every column; effects [E, d] are added to ``base`` [d]."""
    environments, precision = len(effects), 1 / variances
    fixed = (precision * effects).sum(0) / precision.sum(0)
    q = (precision * (effects - fixed).square()).sum(0)
    spread = precision.sum(0) - precision.square().sum(0) / precision.sum(0)
    tau2 = ((q - (environments - 1)) / spread.clamp(min=1e-12)).clamp(min=0)
    own = 1 / (variances + tau2)
    mean = base + (own * effects).sum(0) / own.sum(0)
    matters = (base + fixed).abs() > MIN_Z * precision.sum(0).rsqrt()
    p_value = torch.from_numpy(chi2.sf(q.numpy(), environments - 1)) * max(1, int(matters.sum())) * tests
    p_value = torch.where(matters, p_value.clamp(max=1.0), torch.ones_like(p_value))
    kappa = float(student.ppf(RANGE, environments - 1)) * (1 + 1 / environments) ** 0.5
    against = torch.maximum(mean.abs() - kappa * tau2.sqrt(), -mean.abs()) * mean.sign()
    return Effects(mean, torch.where(p_value < LEVEL, against, mean), p_value)


def _moved(environments: Sequence[Environment], x: Sequence[Tensor]) -> AdverseSite:
    """The rows with columns moved along the target, so that their slopes by the target are the adverse ones."""
    targets = [e.y.double() - e.y.double().mean() for e in environments]
    slopes, variances = [], []
    for columns, y in zip(x, targets, strict=True):
        square = y.square().sum().clamp(min=1e-9)
        centred = columns - columns.mean(0)
        slopes.append(centred.T @ y / square)
        rest = centred - y.unsqueeze(1) * slopes[-1]
        variances.append((rest.square().mean(0) / square).clamp(min=1e-12))
    effects = _compared(torch.stack(slopes), torch.stack(variances), torch.zeros_like(slopes[0]), 1)
    scale = torch.cat([loaded(e.x) for e in environments]).double().std(0)
    moved = []
    for e, y, slope in zip(environments, targets, slopes, strict=True):
        change = torch.where(effects.adverse != effects.mean, effects.adverse - slope, 0.0) * scale
        moved.append(replace(e, x=(loaded(e.x).double() + y.unsqueeze(1) * change).to(e.x.dtype)))
    return AdverseSite(tuple(moved), effects.varying, float(effects.p_value.min()))
