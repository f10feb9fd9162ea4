r"""Effects of columns on a label, compared between sites.

The model of all sites together has one effect of every column, beside what ERM predicts and an intercept per site:

    log-odds(y | x, e) = f(x) + c_e + b·x.

For each column, Rao's score test asks whether effects δ_e that differ between sites would fit better (χ² with E − 1
degrees of freedom, corrected for the number of columns that matter). The most significant column gets effects by site,
and the rest are tested again beside it, until none is left: a column that only goes along with one that varies is not
taken for it. The test needs no model of one site alone, so sites may be small.

A column's effects have a mean m and a deviation τ between sites, beyond what chance explains, by the random-effects
model of a meta-analysis (DerSimonian and Laird 1986). One more site has an effect within m ± κτ in 19 of 20 cases, with
κ the quantile of Student's t for as many sites, times √(1 + 1/E). The adverse effect is the end of this range that goes
against m, but no more than the reverse, −m. Two sites are enough for it, and so is a trend that never crosses zero.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from scipy.stats import chi2
from scipy.stats import t as student
from torch import Tensor

RANGE = 0.975
"""The quantile that ends the range of one more site."""
MIN_Z = 3.0
"""A column matters if its mean effect is as many standard errors from zero."""
RIDGE = 0.01
"""On every coefficient, for columns of variance 1: keeps them finite where columns repeat each other."""
SITE_RIDGE = 0.25
"""On effects by site, which few rows stand for."""
MAX_VARYING = 8
"""Columns that get effects by site."""
NEWTON_STEPS = 25


class Effects(NamedTuple):
    """Of every column: the effect's mean, and where the adverse site has it; the test's p-value, [d] each."""

    mean: Tensor
    adverse: Tensor
    p_value: Tensor

    @property
    def varying(self) -> tuple[int, ...]:
        """The columns whose effects vary, the most significant first."""
        columns = (self.adverse != self.mean).nonzero().squeeze(1)
        return tuple(columns[self.p_value[columns].argsort(stable=True)].tolist())


class Sites(NamedTuple):
    """Standardised columns [n, d] of all sites, rows of one site after those of another, and the rows' weights [n]."""

    x: Tensor
    weight: Tensor
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, x: Sequence[Tensor], weights: Sequence[Tensor]) -> "Sites":
        """From the columns [n, d] and weights [n] of each site."""
        return cls(torch.cat(list(x)), torch.cat(list(weights)), tuple(map(len, x)))

    def apart(self, values: Tensor) -> Tensor:
        """One column per site, with the ``values`` [n] of its rows and zeros elsewhere, [n, E]."""
        return torch.block_diag(*(part.unsqueeze(1) for part in values.split(self.sizes)))


def compared(sites: Sites, y: Tensor, f: Tensor, level: float) -> Effects:
    """Effects on the log-odds of ``y`` = 1 beside ``f``, [n] each; those vary whose p-value is below ``level``."""
    d, number = sites.x.shape[1], len(sites.sizes)
    z = torch.cat([sites.x, sites.apart(torch.ones_like(f))], dim=1)
    ridge = torch.full((z.shape[1],), RIDGE, dtype=z.dtype)
    slopes = torch.linalg.lstsq(sites.x, (f - f.mean()).unsqueeze(1), driver="gelsd").solution.squeeze(1)
    p_value = torch.ones(d, dtype=z.dtype)
    mean = adverse = matters = torch.zeros(0)
    varying: list[int] = []
    deviation = 0.0
    while True:
        model = _fitted(sites, z, y, f, ridge)
        if varying:
            deviation = max(deviation, _deviation(sites, model, varying[-1], model.b[-number:]))
            adverse[varying[-1]] = against(mean[varying[-1]], deviation, number)
        else:
            mean = slopes + model.b[:d]
            adverse = mean.clone()
            matters = mean.abs() > MIN_Z * model.inverse.diagonal()[:d].sqrt()
        rest = [i for i in matters.nonzero().squeeze(1).tolist() if i not in varying]
        tests = {i: _score_test(sites, model, i) for i in rest}
        best = min(tests, key=lambda i: tests[i].p_value, default=None)
        if best is None or len(varying) == MAX_VARYING:
            break
        p_value[best] = min(1.0, tests[best].p_value * int(matters.sum()))
        if p_value[best] >= level:
            break
        varying.append(best)
        deviation = _deviation(sites, model, best, tests[best].step)
        z = torch.cat([z, sites.apart(sites.x[:, best])], dim=1)
        ridge = torch.cat([ridge, torch.full((number,), SITE_RIDGE, dtype=z.dtype)])
    return Effects(mean, adverse, p_value)


def against(mean: Tensor, deviation: Tensor | float, sites: int) -> Tensor:
    """The end of the range of one more site that goes against the mean, but no more than the reverse."""
    kappa = float(student.ppf(RANGE, sites - 1)) * (1 + 1 / sites) ** 0.5
    return torch.maximum(mean.abs() - kappa * deviation, -mean.abs()) * mean.sign()


class Fitted(NamedTuple):
    """The model of all sites: coefficients b [p] of ``z`` [n, p], weighted residuals r and variances p(1 − p) [n].

    ``inverse`` [p, p] is that of its information.
    """

    z: Tensor
    b: Tensor
    r: Tensor
    variance: Tensor
    inverse: Tensor


def _fitted(sites: Sites, z: Tensor, y: Tensor, f: Tensor, ridge: Tensor) -> Fitted:
    """By Newton's method."""
    b = torch.zeros_like(ridge)
    for _ in range(NEWTON_STEPS):
        p = torch.sigmoid(f + z @ b)
        variance = sites.weight * p * (1 - p)
        information = (z * variance.unsqueeze(1)).T @ z + ridge.diag()
        step = torch.linalg.solve(information, z.T @ (sites.weight * (p - y)) + ridge * b)
        if step.abs().max() < 1e-5:
            break
        b = b - step * min(1.0, 2 / max(float(step.abs().max()), 1e-9))
    return Fitted(z, b, sites.weight * (y - p), variance, torch.linalg.inv(information))


class ScoreTest(NamedTuple):
    """That a column has the same effect at every site, and one step from there to effects by site, [E]."""

    p_value: float
    step: Tensor


def _score_test(sites: Sites, model: Fitted, i: int) -> ScoreTest:
    """Of column ``i``, with the variance of the scores over rows (a sandwich), which holds if the model does not."""
    apart = sites.apart(sites.x[:, i])  # [n, E]
    cross = (apart * model.variance.unsqueeze(1)).T @ model.z
    influence = (apart - model.z @ (model.inverse @ cross.T)) * model.r.unsqueeze(1)
    values, vectors = torch.linalg.eigh(influence.T @ influence)
    used = values > 1e-6 * values[-1]
    used[0] = False  # the same change at all sites is in the model already
    q = float(((vectors.T @ influence.sum(0)).square() / values)[used].sum())
    own = (apart.square() * model.variance.unsqueeze(1)).sum(0)
    step = influence.sum(0) / own.clamp(min=1e-12)
    return ScoreTest(float(chi2.sf(q, max(1, int(used.sum())))), step)


def _deviation(sites: Sites, model: Fitted, i: int, effects: Tensor) -> float:
    """τ of the ``effects`` [E] of column ``i``, weighted by the information about them."""
    own = torch.stack([part.sum() for part in (model.variance * sites.x[:, i].square()).split(sites.sizes)])
    own = own.clamp(min=1e-12)
    centre = (own * effects).sum() / own.sum()
    q = float((own * (effects - centre).square()).sum())
    spread = float(own.sum() - own.square().sum() / own.sum())
    return max(0.0, (q - (len(own) - 1)) / max(spread, 1e-12)) ** 0.5


def compared_slopes(slopes: Tensor, variances: Tensor, level: float) -> Effects:
    """Slopes of columns at each site [E, d], with sampling variances, compared by Cochran's Q."""
    sites, precision = len(slopes), 1 / variances
    fixed = (precision * slopes).sum(0) / precision.sum(0)
    q = (precision * (slopes - fixed).square()).sum(0)
    spread = precision.sum(0) - precision.square().sum(0) / precision.sum(0)
    variance = ((q - (sites - 1)) / spread.clamp(min=1e-12)).clamp(min=0)  # τ²
    own = 1 / (variances + variance)
    mean = (own * slopes).sum(0) / own.sum(0)
    matters = fixed.abs() > MIN_Z * precision.sum(0).rsqrt()
    p_value = torch.from_numpy(chi2.sf(q.numpy(), sites - 1)) * max(1, int(matters.sum()))
    p_value = torch.where(matters, p_value.clamp(max=1.0), torch.ones_like(p_value))
    return Effects(mean, torch.where(p_value < level, against(mean, variance.sqrt(), sites), mean), p_value)
