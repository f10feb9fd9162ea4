import numpy as np
import pytest

from invariance.core.environment import BETAS
from invariance.studies.support.sampling import ends, ends_noise, gap_floor, normal_range


def draws(accuracies, images, trials=4000):
    random = np.random.default_rng(0)
    return 100 * random.binomial(images, accuracies, (trials, len(accuracies))) / images


def test_a_predictor_of_colour_alone_has_ends_0_and_100():
    assert ends(50, 90) == pytest.approx((0, 100))


def test_ends_give_back_the_line_they_come_from():
    line = [70 + (0.5 - beta) * 20 for beta in BETAS]
    assert ends(np.mean(line), max(line) - min(line)) == pytest.approx((60, 80))


def test_noise_of_an_end_is_that_of_drawn_environments():
    drawn = draws([(1 - beta) * 0.98 for beta in BETAS], 10_000)
    implied = drawn.mean(1) - (drawn.max(1) - drawn.min(1)) / 1.8
    assert ends_noise(49, 88.2) == pytest.approx(implied.std(), rel=0.05)
    assert implied.mean() == pytest.approx(0, abs=0.02)


def test_noise_falls_with_the_root_of_images():
    assert ends_noise(49, 88.2, 1000) == pytest.approx(10**0.5 * ends_noise(49, 88.2, 10_000))


def test_a_pair_that_cannot_be_is_judged_at_the_nearest_that_can():
    assert ends_noise(41, 93) == pytest.approx(ends_noise(46.333333, 83.4), rel=1e-5)


def test_the_range_of_normals_is_known_for_two():
    assert normal_range(2) == pytest.approx((2 / np.pi**0.5, (2 - 4 / np.pi) ** 0.5), rel=1e-3)


def test_the_floor_of_a_gap_is_what_independent_draws_give():
    drawn = draws([0.7] * len(BETAS), 10_000, 20_000)
    gaps = drawn.max(1) - drawn.min(1)
    floor = gap_floor(70)
    assert floor.mean == pytest.approx(gaps.mean(), rel=0.01)
    assert floor.std == pytest.approx(gaps.std(), rel=0.02)
    assert floor == pytest.approx((1.69, 0.34), abs=0.01)


def test_a_predictor_without_mistakes_has_no_floor():
    assert gap_floor(100) == (0, 0)
