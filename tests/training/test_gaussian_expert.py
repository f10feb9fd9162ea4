from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from invariance.core.batch import Batch
from invariance.core.families import Gaussian
from invariance.models.base import Model
from invariance.training.gaussian_expert import cue_statistic, gaussian_offset

SPREADS = (0.5, 1.0)


def drawn(
    spreads: tuple[float, ...] = SPREADS, mean: tuple[float, ...] = (0.0, 0.0), *, causal: bool = True, n: int = 20_000
) -> Batch:
    """Environments with a cause or effect of y, a column without use, and a cue: y with noise of this spread."""
    random = torch.Generator().manual_seed(0)
    xs, ys = [], []
    for spread, centre in zip(spreads, mean, strict=True):
        first = centre + torch.randn(n, generator=random)
        second = first + torch.randn(n, generator=random)
        x, y = (first, second) if causal else (second, first)
        cue = y + spread * torch.randn(n, generator=random)
        xs.append(torch.stack([x, torch.randn(n, generator=random), cue], 1))
        ys.append(y)
    return Batch(torch.cat(xs), torch.cat(ys), (n,) * len(spreads), Gaussian())


class Even(nn.Module):
    """An environment classifier with an optimal P(e | x) for inputs of the same distribution everywhere."""

    def forward(self, x: Tensor) -> Tensor:
        return x.new_zeros(len(x), 4)


def classifier(head: nn.Module | None = None) -> Model:
    return Model(nn.Identity(), head or Even())


def least_squares(data: Batch, offset: Tensor | None) -> Tensor:
    """The linear f that minimises the loss of the product of experts, by its normal equations."""
    x = torch.cat([data.x, torch.ones(len(data.y), 1)], 1)
    if offset is None:
        return torch.linalg.lstsq(x, data.y).solution
    root = (1 + offset[:, 1]).sqrt()
    return torch.linalg.lstsq(x / root.unsqueeze(1), root * data.y - offset[:, 0] / root).solution


def test_the_experts_natural_parameters_are_those_of_the_cue():
    data = drawn()
    offset = gaussian_offset(classifier(), data)
    assert offset is not None
    for e, spread in enumerate(SPREADS):
        rows = data.rows(e)  # y has variance 1 around its cause, so v = 1
        assert offset[rows, 1] == pytest.approx(torch.full((data.counts[e],), 1 / spread**2), rel=0.1)
        wanted = data.x[rows, 2] / spread**2
        assert (offset[rows, 0] - wanted).square().mean() < 0.01 * wanted.square().mean()


def test_the_best_model_beside_the_expert_is_the_regression_on_the_causal_column():
    data = drawn()
    plain, debiased = (least_squares(data, offset) for offset in (None, gaussian_offset(classifier(), data)))
    assert plain[2] > 0.6
    torch.testing.assert_close(debiased, torch.tensor([1.0, 0.0, 0.0, 0.0]), rtol=0, atol=0.05)


def test_it_is_the_regression_at_the_average_prior_where_the_number_has_another_mean_in_each_environment():
    data = drawn(mean=(-0.5, 0.5), causal=False)
    shared = nn.Linear(3, 4)
    with torch.no_grad():  # log P(e | x) is linear in x, were the cues alike; the column follows from y
        shared.weight.zero_()
        shared.bias.zero_()
        shared.weight[2:, 0] = torch.tensor([-0.5, 0.5])
    offset = gaussian_offset(classifier(shared), data)
    assert offset is not None
    debiased = least_squares(data, offset)  # E[y | x] = x / 2 for y ~ N(0, 1)
    torch.testing.assert_close(debiased, torch.tensor([0.5, 0.0, 0.0, 0.0]), rtol=0, atol=0.06)


def test_the_expert_follows_the_units_of_the_number():
    data = drawn(n=4000)
    one, other = (gaussian_offset(classifier(), replace(data, y=y)) for y in (data.y, 5 - 10 * data.y))
    assert one is not None
    assert other is not None
    torch.testing.assert_close(other[:, 1], one[:, 1], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(other[:, 0], 5 * one[:, 1] - 10 * one[:, 0], rtol=1e-3, atol=1e-2)


def test_a_cue_of_equal_strength_everywhere_gives_no_offset():
    assert gaussian_offset(classifier(), drawn((0.7, 0.7))) is None


def test_noise_of_another_variance_is_no_cue():
    data = drawn()
    y = data.x[:, 0] + (1.0 + data.environment) * data.x[:, 1]
    assert gaussian_offset(classifier(), replace(data, x=data.x[:, :1], y=y)) is None


def test_a_cue_is_found_where_inputs_tell_the_environment():
    def marked(spreads: tuple[float, ...]) -> Batch:
        data = drawn(spreads)
        mark = 2.0 * data.environment + 0.3 * torch.randn(len(data.y), generator=torch.Generator().manual_seed(1))
        return replace(data, x=torch.cat([data.x, mark.unsqueeze(1)], 1))

    naming = nn.Linear(4, 4)
    with torch.no_grad():
        naming.weight.zero_()
        naming.bias.copy_(torch.tensor([0.0, 0.0, 20.0, -20.0]))
        naming.weight[2:, 3] = torch.tensor([-20.0, 20.0])
    data = marked(SPREADS)
    offset = gaussian_offset(classifier(naming), data)
    assert offset is not None
    assert least_squares(data, offset)[:3] == pytest.approx(torch.tensor([1.0, 0.0, 0.0]), abs=0.06)
    assert gaussian_offset(classifier(naming), marked((0.7, 0.7))) is None


def test_a_weight_of_two_is_two_rows():
    data = drawn(n=5000)
    twice = torch.arange(10_000) % 10 // 5 + 1  # rows that are held out are so with both
    rows = torch.cat([torch.arange(10_000), torch.arange(10_000)[twice == 2]]).sort().values
    weighted = gaussian_offset(classifier(), replace(data, weight=twice.float()))
    copied = gaussian_offset(classifier(), data.take(rows, (7500, 7500)))
    assert weighted is not None
    assert copied is not None
    first = torch.searchsorted(rows, torch.arange(10_000))
    assert (weighted - copied[first]).square().mean() < 0.01 * weighted.square().mean()


@pytest.mark.parametrize("n", [1, 2, 7])
def test_few_rows_and_constant_numbers_give_no_offset(n):
    data = drawn(n=n)
    offset = gaussian_offset(classifier(), data)
    assert offset is None or bool(offset.isfinite().all())
    assert gaussian_offset(classifier(), replace(data, y=torch.ones(2 * n))) is None


def test_the_statistic_has_a_component_for_each_cue():
    random = torch.Generator().manual_seed(0)
    cues = torch.randn(500, 2, generator=random).double()
    directions = torch.tensor([[1.0, -1, 0, 0], [0, 1, 1, -2]]).double()
    assert cue_statistic(cues[:, :1] @ directions[:1]).shape == (500, 1)
    s = cue_statistic(cues @ directions)
    assert s.shape == (500, 2)
    torch.testing.assert_close(s.T @ s / 500, torch.eye(2).double())
