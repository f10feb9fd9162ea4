"""Effects of columns on a label, compared between sites."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from invariance.estimators.effects import DEVIATION, Effects, Sites, compared, compared_slopes

LEVEL = 0.01


def sites(seed: int, rows: int, effects: list[list[float]]) -> Sites:
    """Columns of variance 1, and at each site their effects on the log-odds of the label."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(len(effects), rows, len(effects[0])))
    odds = np.einsum("erd,ed->er", x, effects)
    y = random.random(odds.shape) < 1 / (1 + np.exp(-odds))
    together = np.einsum("erd,d->er", x, np.mean(effects, axis=0))
    values = [torch.from_numpy(v.reshape(-1)).double() for v in (y, together)]
    ones = torch.ones(len(effects) * rows, dtype=torch.float64)
    return Sites(torch.from_numpy(x.reshape(-1, x.shape[2])), *values, ones, (rows,) * len(effects))


def test_the_column_that_varies_is_found_and_no_other():
    effects = compared(sites(0, 600, [[1, 0, 2.5], [1, 0, 1.8], [1, 0, 0.8], [1, 0, 0.2]]), LEVEL)
    assert effects.varying == (2,)
    assert effects.mean.numpy() == pytest.approx([1, 0, 1.2], abs=0.25)
    assert effects.adverse[2] < 0
    assert effects.p_value[0] == effects.p_value[1] == 1


def test_small_sites_are_compared_too():
    found = [compared(sites(seed, 60, [[1, b] for b in (3, 2.5, 1.5, 0.5, 0.2)]), LEVEL).varying for seed in range(10)]
    assert found.count((1,)) >= 8


def test_two_columns_that_vary_together_are_both_found():
    found = compared(sites(1, 2000, [[1, b, b] for b in (2.0, 1.6, 1.2, 0.8)]), LEVEL)
    assert set(found.varying) == {1, 2}


def test_noisier_labels_are_no_varying_effects():
    found = [compared(sites(seed, 600, [[b, -b, b] for b in (0.4, 0.8, 1.2, 1.6)]), LEVEL) for seed in range(5)]
    assert [effects.varying for effects in found] == [()] * 5


def test_where_nothing_varies_columns_are_rarely_blamed():
    found = [compared(sites(seed, 200, [[1, -1, 0.5]] * 4), LEVEL).varying for seed in range(100)]
    assert sum(map(bool, found)) <= 4


def test_heavy_tails_are_not_mistaken_for_differences():
    """The model of the log-odds is wrong alike at all sites."""
    blamed = 0
    for seed in range(40):
        made = sites(seed, 300, [[1, -1, 1]] * 4)
        x = made.x.sign() * (made.x.abs().exp() - 1)
        blamed += bool(compared(made._replace(x=(x - x.mean(0)) / x.std(0)), LEVEL).varying)
    assert blamed <= 4


def test_where_nothing_varies_odds_of_twenty_are_as_rare_as_they_say():
    """Under the null, the mean of a Bayes factor is 1, so it is above 20 in at most one table of twenty (Markov)."""
    found = [compared(sites(seed, 200, [[1, -1, 0.5]] * 4), 0.05) for seed in range(100)]
    assert sum(float(effects.log_odds.max()) > np.log(20) for effects in found) <= 5


def test_small_sites_with_a_column_that_fades_leave_little_doubt():
    fading = [[1, b] for b in (3, 2.5, 1.5, 0.5, 0.2)]
    found = [compared(sites(seed, 60, fading), 0.05) for seed in range(10)]
    assert sum(float(effects.log_odds[1]) > 3 for effects in found) >= 8


def test_the_evidence_of_slopes_is_a_ratio_of_normal_densities():
    slopes, variances = torch.tensor([1.4, 0.6, 1.2, 0.2]).double(), torch.tensor([0.01, 0.02, 0.015, 0.01]).double()
    effects = compared_slopes(slopes.unsqueeze(1), variances.unsqueeze(1), 0.05)
    fixed = float((slopes / variances).sum() / (1 / variances).sum())
    any_mean = 1e6 * np.ones((4, 4))  # a mean effect about which nothing is known
    densities = [
        multivariate_normal.logpdf(slopes, np.zeros(4), any_mean + np.diag(variances + tau**2))
        for tau in (DEVIATION * fixed, 0.0)
    ]
    assert float(effects.log_odds[0]) == pytest.approx(densities[0] - densities[1], rel=1e-4)


def test_a_weight_of_two_is_two_rows():
    made = sites(3, 100, [[1, 2.0], [1, 0.3]])
    twice = torch.arange(200) % 2 == 0
    rows = torch.arange(200).repeat_interleave(1 + twice.long())
    repeated = Sites(made.x[rows], made.y[rows], made.f[rows], torch.ones(300, dtype=torch.float64), (150, 150))
    effects = [compared(each, LEVEL) for each in (made._replace(weight=1.0 + twice.double()), repeated)]
    assert effects[0].mean.numpy() == pytest.approx(effects[1].mean.numpy(), abs=0.01)


def test_the_adverse_effect_is_as_far_against_the_mean_as_that_of_a_site():
    found = compared(sites(4, 1500, [[1, 2.0], [1, 1.6], [1, -2.0]]), LEVEL)
    assert found.varying == (1,)
    assert 0 < found.mean[1] < 1
    assert found.adverse[1] == pytest.approx(-2, abs=0.3)
    slopes = torch.tensor([[1.0], [0.8], [-0.9]], dtype=torch.float64)
    found = compared_slopes(slopes, torch.full((3, 1), 0.002, dtype=torch.float64), LEVEL)
    assert float(found.adverse) == pytest.approx(-0.9)


def test_slopes_of_two_sites_turn():
    slopes = torch.tensor([[1.0, 1.0], [1.0, 0.4]], dtype=torch.float64)
    effects = compared_slopes(slopes, torch.full((2, 2), 0.002, dtype=torch.float64), LEVEL)
    assert effects.varying == (1,)
    assert effects.adverse[1] == pytest.approx(-float(effects.mean[1]))


def test_the_most_significant_column_comes_first():
    mean = torch.tensor([1.0, 1.0, 1.0])
    effects = Effects(mean, torch.tensor([0.0, 1.0, -1.0]), torch.tensor([0.004, 1.0, 0.001]), torch.zeros(3))
    assert effects.varying == (2, 0)
