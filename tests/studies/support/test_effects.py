import math

import pytest

from invariance.core.artefacts import Quantity
from invariance.studies.support.effects import difference, effects, error


def around(mean, spread=0.1):
    return Quantity((mean - spread, mean, mean + spread))


def test_a_standard_error_needs_two_seeds():
    assert error(around(70.0, 0.3)) == pytest.approx(0.3 / 3**0.5)
    assert math.isnan(error(Quantity((70.0,))))
    assert math.isnan(error(Quantity()))


def test_a_difference_is_told_when_it_is_twice_its_error():
    assert difference(around(70.0), around(69.0)).significant
    assert not difference(around(70.0), around(69.9)).significant
    assert not difference(Quantity((70.0,)), Quantity((60.0,))).significant
    assert str(difference(around(70.0), around(71.0))) == "−1.00 ± 0.08"
    assert str(difference(Quantity((70.0,)), Quantity((69.0,)))) == "+1.00"


def test_parts_are_mean_effects_and_add_up_to_the_whole():
    found = effects(around(60.0), around(61.0), around(64.0), around(68.0))
    assert found.total.value == pytest.approx(8)
    assert found.first == pytest.approx(((61 - 60) + (68 - 64)) / 2)
    assert found.second == pytest.approx(((64 - 60) + (68 - 61)) / 2)
    assert found.first + found.second == pytest.approx(found.total.value)
    assert found.larger == 2


def test_the_larger_part_is_larger_in_size_whatever_its_sign():
    assert effects(around(60.0), around(55.0), around(61.0), around(56.0)).larger == 1
    assert effects(around(60.0), around(59.0), around(65.0), around(64.0)).larger == 2


@pytest.mark.parametrize("second", [61.05, 59.0])
def test_parts_of_the_same_size_are_not_told_apart(second):
    found = effects(around(60.0), around(61.0), around(second), around(60.0 + 1.0 + second - 60.0))
    assert found.larger is None


def test_one_seed_tells_nothing():
    assert effects(*(Quantity((v,)) for v in (60.0, 61.0, 69.0, 70.0))).larger is None
