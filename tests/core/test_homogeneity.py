import math

import pytest
import torch

from invariance.core.batch import Batch
from invariance.core.families import Bernoulli
from invariance.core.homogeneity import homogeneity_p_value


def batch(*counts: int) -> Batch:
    n = sum(counts)
    return Batch(torch.zeros(n, 1), torch.zeros(n), counts, Bernoulli())


def test_of_one_number_in_two_environments_it_is_the_z_test():
    values = torch.randn(900, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    first, second = values[:400], values[400:]
    variance = (400 * first.var(correction=0) + 500 * second.var(correction=0)) / 900
    z = (first.mean() - second.mean()) / (variance * (1 / 400 + 1 / 500)).sqrt()
    expected = math.erfc(abs(float(z)) / math.sqrt(2))
    assert homogeneity_p_value(values, batch(400, 500)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("environments", [2, 5])
def test_where_nothing_differs_every_probability_is_as_frequent(environments):
    random = torch.Generator().manual_seed(1)
    mixing = torch.tensor([[1.0, 0.9, 0.0], [0.0, 0.3, 0.0], [0.0, 0.0, 5.0]])
    chances = [
        homogeneity_p_value(torch.randn(200 * environments, 3, generator=random) @ mixing, batch(*[200] * environments))
        for _ in range(400)
    ]
    for level in (0.05, 0.25, 0.5, 0.75):
        share = sum(chance < level for chance in chances) / len(chances)
        assert share == pytest.approx(level, abs=4 * math.sqrt(level * (1 - level) / len(chances)))


def test_a_difference_in_any_of_the_numbers_is_seen():
    for column in range(3):
        values = torch.randn(2000, 3, generator=torch.Generator().manual_seed(column))
        values[:1000, column] += 0.3
        assert homogeneity_p_value(values, batch(1000, 1000)) < 1e-4


def test_units_and_mixtures_of_the_numbers_do_not_matter():
    values = torch.randn(300, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    mixed = values @ torch.tensor([[100.0, 1.0], [3.0, 0.01]], dtype=torch.float64)
    assert homogeneity_p_value(mixed, batch(100, 200)) == pytest.approx(
        homogeneity_p_value(values, batch(100, 200)), rel=1e-6
    )


def test_a_number_said_twice_counts_once():
    values = torch.randn(300, 1, generator=torch.Generator().manual_seed(4))
    assert homogeneity_p_value(values.repeat(1, 2), batch(100, 200)) == pytest.approx(
        homogeneity_p_value(values, batch(100, 200)), rel=1e-6
    )


def test_one_environment_and_constant_values_are_alike():
    assert homogeneity_p_value(torch.randn(10, 2), batch(10)) == 1.0
    assert homogeneity_p_value(torch.ones(10, 2), batch(4, 6)) == 1.0


def test_values_that_are_not_finite_are_not_alike():
    assert homogeneity_p_value(torch.tensor([[1.0], [math.nan], [0.0], [1.0]]), batch(2, 2)) == 0.0


def test_the_unit_does_not_matter_however_large():
    values = torch.randn(60, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    expected = homogeneity_p_value(values, batch(30, 30))
    for unit in (1e-120, 1e50, 1e120, 1e300):
        assert homogeneity_p_value(unit * values, batch(30, 30)) == pytest.approx(expected, rel=1e-9)
