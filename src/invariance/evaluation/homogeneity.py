"""A test of homogeneity: whether averages over samples are the same in all environments."""

import torch
from torch import Tensor

from invariance.core.batch import Batch

LARGEST = 1e100
"""Squares of larger values may be beyond the range of numbers."""


def homogeneity_p_value(values: Tensor, batch: Batch) -> float:
    """The probability that equal environments differ by chance as much as these do in the means of ``values`` [n, q].

    Wald's test: n_e (m_e − m)ᵀ S⁻¹ (m_e − m), added over environments, is χ² with (E − 1)·q degrees of freedom, where
    S is the covariance within environments. A single environment, or values that are all the same, give 1; values
    that are not finite give 0.
    """
    values = values.double()
    if not values.isfinite().all():
        return 0.0
    if (largest := values.abs().max()) > LARGEST:
        values = values / largest  # whose unit does not matter
    means = batch.mean(values)  # [E, q]
    within = values - means[batch.environment]
    covariance = within.T @ within / len(values)
    freedom = (batch.environments - 1) * int(torch.linalg.matrix_rank(covariance, hermitian=True))
    if not freedom:
        return 1.0
    apart = means - values.mean(0)
    sizes = torch.tensor(batch.counts, dtype=values.dtype)
    statistic = (sizes * ((apart @ torch.linalg.pinv(covariance, hermitian=True)) * apart).sum(1)).sum()
    return float(torch.special.gammaincc(statistic.new_tensor(freedom / 2), statistic / 2))
