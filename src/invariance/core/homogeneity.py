"""A test of homogeneity: whether averages over samples are the same in all environments."""

import torch
from torch import Tensor

from invariance.core.batch import Batch
from invariance.core.ranks import total

LARGEST = 1e100
"""Squares of larger values may be beyond the range of numbers."""


def homogeneity(f: Tensor, batch: Batch) -> float:
    """The p-value of equal loss and calibration in all environments, for outputs ``f`` [n, K].

    An invariant model's loss, its residual r and r·f, which is how its loss changes with the scale of its outputs,
    have one mean in all environments: neither its risk nor its calibration differs between them.
    """
    r = batch.residual(f)
    signs = torch.cat([batch.loss(f).unsqueeze(1), r, (r * f).sum(1, keepdim=True)], dim=1)
    return homogeneity_p_value(signs, batch)


def homogeneity_p_value(values: Tensor, batch: Batch) -> float:
    """The probability that equal environments differ by chance as much as these do in the means of ``values`` [n, q].

    Wald's test: n_e (m_e − m)ᵀ S⁻¹ (m_e − m), added over environments, is χ² with (E − 1)·q degrees of freedom, where
    S is the covariance within environments. A single environment, or values that are all the same, give 1; values
    that are not finite give 0. Where the batch is a shard, the test is that of the whole batch.
    """
    values = values.double()
    if not batch.shard:
        if not values.isfinite().all():
            return 0.0
        if (largest := values.abs().max()) > LARGEST:
            values = values / largest  # whose unit does not matter
    means = batch.mean(values)  # [E, q]
    within = values - means[batch.environment]
    covariance, pooled, counts = _pooled(within, values, batch)
    if not covariance.isfinite().all():
        return 0.0
    freedom = (batch.environments - 1) * int(torch.linalg.matrix_rank(covariance, hermitian=True))
    if not freedom:
        return 1.0
    apart = means - pooled
    sizes = torch.tensor(counts, dtype=values.dtype)
    statistic = (sizes * ((apart @ torch.linalg.pinv(covariance, hermitian=True)) * apart).sum(1)).sum()
    return float(torch.special.gammaincc(statistic.new_tensor(freedom / 2), statistic / 2))


def _pooled(within: Tensor, values: Tensor, batch: Batch) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """The covariance within environments, the mean of all rows and how many each environment has."""
    if not batch.shard:
        return within.T @ within / len(values), values.mean(0), batch.counts
    rows = sum(batch.shard.counts)
    return total(within.T @ within) / rows, total(values.sum(0)) / rows, batch.shard.counts
