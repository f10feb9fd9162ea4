r"""Effects of columns on a label, compared between sites.

The model of all sites together has one effect of every column, beside what ERM predicts and an intercept per site:

    log-odds(y | x, e) = f(x) + c_e + b·x.

For each column, Rao's score test asks whether effects δ_e that differ between sites would fit better (χ² with E − 1
degrees of freedom, corrected for the number of columns that matter). The most significant column gets effects by site,
and the rest are tested again beside it, until none is left: a column that only goes along with one that varies is not
taken for it. The test needs no model of one site alone, so sites may be small.

A test that rejects in one table of twenty by chance does not say how likely it is that the effect varies. The Bayes
factor does: of δ_e ~ N(0, (m/2)²), with which a mean effect m turns at one site of forty, against δ_e = 0. With the
score u and its variance λ along each eigenvector, and t = (m/2)²λ,

    log BF = ½ Σ [u²/λ · t/(1 + t) − log(1 + t)].

Before the data, it is as likely that one of the columns that matter varies as that none does. Where one factor per site
for all effects has more evidence than the columns that vary have together, labels are noisier at some sites, and no
column varies.

A column's effects have a mean m and a deviation τ between sites, beyond what chance explains, by the random-effects
model of a meta-analysis (DerSimonian and Laird 1986). One more site has an effect within m ± κτ in 19 of 20 cases, with
κ the quantile of Student's t for as many sites, times √(1 + 1/E). The adverse effect is the end of this range that goes
against m, but no more than the reverse, −m, or than an effect against m that one of the sites has. Two sites are enough
for it, and so is a trend that never crosses zero.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from scipy.linalg import eigh
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
DEVIATION = 0.5
"""Between sites, of an effect that may turn, as a share of its mean: it turns at one site of forty."""
MAX_VARYING = 8
"""Columns that get effects by site."""
NEWTON_STEPS = 25


class Effects(NamedTuple):
    """Of every column: the effect's mean, and where the adverse site has it; the test's p-value, [d] each.

    ``log_odds`` are those that the effect varies, given the data; −∞ where the test does not reject.
    """

    mean: Tensor
    adverse: Tensor
    p_value: Tensor
    log_odds: Tensor

    @property
    def varying(self) -> tuple[int, ...]:
        """The columns whose effects vary, the most significant first."""
        columns = (self.adverse != self.mean).nonzero().squeeze(1)
        return tuple(columns[self.p_value[columns].argsort(stable=True)].tolist())


class Sites(NamedTuple):
    """Rows of several sites, those of one after those of another: columns of variance 1, labels 0 and 1, ERM's outputs.

    ``x`` is [n, d]; ``y``, ``f`` and the rows' weights are [n].
    """

    x: Tensor
    y: Tensor
    f: Tensor
    weight: Tensor
    sizes: tuple[int, ...]

    def apart(self, values: Tensor) -> Tensor:
        """One column per site, with the ``values`` [n] of its rows and zeros elsewhere, [n, E]."""
        return torch.block_diag(*(part.unsqueeze(1) for part in values.split(self.sizes)))


def compared(sites: Sites, level: float) -> Effects:
    """Effects on the log-odds of y = 1 beside f; those vary whose p-value is below ``level``."""
    d, number = sites.x.shape[1], len(sites.sizes)
    model = Fitted.of(sites, torch.cat([sites.x, sites.apart(torch.ones_like(sites.f))], dim=1))
    f = (sites.f - sites.f.mean()).unsqueeze(1)
    by_erm = torch.linalg.lstsq(sites.x, f, driver="gelsd").solution.squeeze(1)
    mean = by_erm + model.b[:d]
    matters = (mean.abs() > MIN_Z * model.inverse.diagonal()[:d].sqrt()).nonzero().squeeze(1).tolist()
    none = Effects(mean, mean.clone(), torch.ones_like(mean), torch.full_like(mean, -math.inf))
    _, adverse, p_value, log_odds = found = Effects(*(each.clone() for each in none))
    columns = {i: Column(sites.x[:, i], float(mean[i].abs())) for i in matters}
    limit, alike, evidence = level / max(1, len(matters)), model, 0.0
    while columns and len(matters) - len(columns) < MAX_VARYING:
        best, test = _most_significant(sites, model, columns)
        if test.p_value >= limit:
            break
        column = columns.pop(best).x
        before, model = model, model.beside(sites, column)
        steps = (before, test.step), (model, model.b[-number:])  # the first understates large deviations
        deviation = max(_deviation(sites, own, column, effects) for own, effects in steps)
        seen = by_erm[best] + model.b[best] + model.b[-number:]
        adverse[best], p_value[best] = against(mean[best], deviation, seen), test.p_value * len(matters)
        log_odds[best] = test.evidence - math.log(len(matters))
        evidence += test.evidence
    return none if found.varying and _score_test(sites, alike, _all_effects(sites)).evidence > evidence else found


class Column(NamedTuple):
    """Values of variance 1 [n], and the size of their mean effect."""

    x: Tensor
    effect: float


def against(mean: Tensor, deviation: Tensor | float, seen: Tensor) -> Tensor:
    """The end of the range of one more site that goes against the mean, but no more than the reverse.

    If one of the effects ``seen`` at the sites [E, …] is further against the mean than its reverse, no more than that.
    """
    sites = len(seen)
    kappa = float(student.ppf(RANGE, sites - 1)) * (1 + 1 / sites) ** 0.5
    limit = torch.minimum((mean.sign() * seen).amin(0), -mean.abs())
    return torch.maximum(mean.abs() - kappa * deviation, limit) * mean.sign()


def _all_effects(sites: Sites) -> Column:
    """What all columns say together: its effects differ where labels are noisier at some sites."""
    spread = sites.f.std().clamp(min=1e-9)
    return Column((sites.f - sites.f.mean()) / spread, float(spread))


class Fitted(NamedTuple):
    """The model of all sites: coefficients b [p] of ``z`` [n, p], weighted residuals r and variances p(1 − p) [n].

    ``ridge`` [p] is that of each coefficient, ``inverse`` [p, p] that of the information.
    """

    z: Tensor
    ridge: Tensor
    b: Tensor
    r: Tensor
    variance: Tensor
    inverse: Tensor

    @classmethod
    def of(cls, sites: Sites, z: Tensor, ridge: Tensor | None = None) -> "Fitted":
        """By Newton's method."""
        ridge = torch.full((z.shape[1],), RIDGE, dtype=z.dtype) if ridge is None else ridge
        b, step = torch.zeros_like(ridge), torch.zeros_like(ridge)
        for _ in range(NEWTON_STEPS):
            b = b - step * min(1.0, 2 / max(float(step.abs().max()), 1e-9))
            p = torch.sigmoid(sites.f + z @ b)
            variance = sites.weight * p * (1 - p)
            information = (z * variance.unsqueeze(1)).T @ z + ridge.diag()
            step = torch.linalg.solve(information, z.T @ (sites.weight * (p - sites.y)) + ridge * b)
            if step.abs().max() < 1e-5:
                break
        return cls(z, ridge, b, sites.weight * (sites.y - p), variance, torch.linalg.inv(information))

    def beside(self, sites: Sites, column: Tensor) -> "Fitted":
        """The model with effects of a column [n] by site, whose coefficients are the last E."""
        apart = sites.apart(column)
        ridge = torch.full((apart.shape[1],), SITE_RIDGE, dtype=apart.dtype)
        return Fitted.of(sites, torch.cat([self.z, apart], dim=1), torch.cat([self.ridge, ridge]))


class ScoreTest(NamedTuple):
    """That a column has the same effect at every site: the p-value, and the evidence that it has not (log BF).

    ``step`` [E] leads from there to effects by site.
    """

    p_value: float
    evidence: float
    step: Tensor


def _most_significant(sites: Sites, model: Fitted, columns: Mapping[int, Column]) -> tuple[int, ScoreTest]:
    tests = {i: _score_test(sites, model, column) for i, column in columns.items()}
    return min(tests.items(), key=lambda item: item[1].p_value)


def _score_test(sites: Sites, model: Fitted, column: Column) -> ScoreTest:
    """Of a column, with the model's variance of labels: residuals of few rows would hide the effects' own variance."""
    apart = sites.apart(column.x)  # [n, E]
    cross = (apart * model.variance.unsqueeze(1)).T @ model.z
    apart_alone = apart - model.z @ (model.inverse @ cross.T)
    score = apart_alone.T @ model.r
    variance = (apart_alone * (sites.weight * model.variance).unsqueeze(1)).T @ apart_alone
    values, vectors = map(torch.from_numpy, eigh(variance.numpy()))
    used = values > 1e-6 * values[-1]
    used[0] = False  # the same change at all sites is in the model already
    q, t = ((vectors.T @ score).square() / values)[used], (DEVIATION * column.effect) ** 2 * values[used]
    evidence = float((q * t / (1 + t) - t.log1p()).sum()) / 2
    own = (apart.square() * model.variance.unsqueeze(1)).sum(0)
    return ScoreTest(float(chi2.sf(float(q.sum()), max(1, int(used.sum())))), evidence, score / own.clamp(min=1e-12))


def _deviation(sites: Sites, model: Fitted, column: Tensor, effects: Tensor) -> float:
    """τ of the ``effects`` [E] of a column, weighted by the information about them."""
    own = torch.stack([part.sum() for part in (model.variance * column.square()).split(sites.sizes)])
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
    count = max(1, int(matters.sum()))
    p_value = torch.from_numpy(chi2.sf(q.numpy(), sites - 1)) * count
    p_value = torch.where(matters, p_value.clamp(max=1.0), torch.ones_like(p_value))
    apart = variances + (DEVIATION * fixed).square()
    evidence = _log_likelihood(slopes, apart) - _log_likelihood(slopes, variances)
    log_odds = torch.where(p_value < level, evidence - math.log(count), -math.inf)
    adverse = torch.where(p_value < level, against(mean, variance.sqrt(), slopes), mean)
    return Effects(mean, adverse, p_value, log_odds)


def _log_likelihood(slopes: Tensor, variances: Tensor) -> Tensor:
    """Of slopes [E, d] with these variances around an unknown mean, which is integrated out, [d]."""
    precision = 1 / variances
    centre = (precision * slopes).sum(0) / precision.sum(0)
    q = (precision * (slopes - centre).square()).sum(0)
    return (precision.log().sum(0) - precision.sum(0).log() - q) / 2
