from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from invariance.core.environment import Benchmark, Environment
from invariance.core.errors import BadValue
from invariance.data import DATA
from invariance.data.colored_digits import ColoredDigits


def colour(x: Tensor) -> Tensor:
    """Which channel holds the image; the other one must be black."""
    light = x.flatten(2).sum(2)  # [n, 2]
    assert (light.min(1).values == 0).all()
    return light.argmax(1)


def pictures(x: Tensor) -> set[bytes]:
    return {image.numpy().tobytes() for image in x.sum(1)}


def same(a: Benchmark, b: Benchmark) -> bool:
    def tensors(benchmark: Benchmark) -> list[Tensor]:
        drawn = [t for e in (*benchmark.train, *benchmark.validation) for t in (e.x, e.y)]
        return [*drawn, *benchmark.mechanism.inputs, benchmark.mechanism.t]

    return all(torch.equal(x, y) for x, y in zip(tensors(a), tensors(b), strict=True))


@pytest.fixture(scope="module")
def digits() -> Benchmark:
    return ColoredDigits().load(seed=3)


@pytest.fixture(scope="module")
def clean() -> list[Tensor]:
    """Clean labels of the rows of the training environments, from the parts of the construction."""
    split = ColoredDigits().split(seed=3)
    return [split.train.t[rows] for rows in ColoredDigits().rows(len(split.train.t), seed=3)]


@pytest.mark.parametrize(("e", "beta"), [(0, 0.1), (1, 0.2)])
def test_colour_contradicts_the_label_as_often_as_beta_says(digits, e, beta, assert_share):
    environment = digits.train[e]
    assert environment.name == f"β={beta}"
    assert_share(colour(environment.x) != environment.y, beta)


@pytest.mark.parametrize("e", [0, 1])
def test_labels_are_wrong_as_often_as_alpha_says(digits, clean, e, assert_share):
    assert_share(digits.train[e].y.bool() != clean[e], 0.25)


@pytest.mark.parametrize("e", [0, 1])
def test_colour_follows_the_noisy_label_and_says_nothing_more_about_the_clean_one(digits, clean, e, assert_share):
    environment = digits.train[e]
    y, s = environment.y.bool(), colour(environment.x).bool()
    for noisy in (False, True):
        chosen = (y != clean[e]) == noisy
        assert_share((s != y)[chosen], (0.1, 0.2)[e])


def test_label_is_whether_the_digit_is_below_five():
    from sklearn.datasets import load_digits

    known = load_digits()
    label = {
        image.tobytes(): digit < 5
        for image, digit in zip((known.images / 16).astype("float32"), known.target, strict=True)
    }
    for images in ColoredDigits().split(seed=0):
        assert [label[image.numpy().tobytes()] for image in images.pixels] == images.t.tolist()


@pytest.mark.parametrize("seed", [0, 1])
def test_no_image_is_in_two_of_training_validation_and_test(seed):
    benchmark = ColoredDigits(draws=5000).load(seed)
    parts = [
        set.union(*(pictures(e.x) for e in benchmark.train)),
        set.union(*(pictures(e.x) for e in benchmark.validation)),
        pictures(benchmark.mechanism.inputs[0]),
    ]
    assert [len(part) for part in parts] == [1257, 180, 360]
    assert not any(a & b for a, b in combinations(parts, 2))


def test_environments_have_the_sizes_asked_for():
    benchmark = ColoredDigits(draws=321, betas=(0.1, 0.2, 0.3)).load(seed=0)
    assert [tuple(e.x.shape) for e in benchmark.train] == [(321, 2, 8, 8)] * 3
    assert [len(e) for e in benchmark.validation] == [180] * 3
    assert len(benchmark.mechanism) == 360
    assert benchmark.input_shape == (2, 8, 8)
    assert [len(e) for e in ColoredDigits().load(seed=0).train] == [15_000] * 2


def test_the_two_looks_of_a_test_image_differ_in_colour_alone(digits):
    off, on = digits.mechanism.inputs
    assert not colour(off).any()
    assert colour(on).all()
    assert torch.equal(off.flip(1), on)


def test_an_oracle_gets_no_colour():
    benchmark = ColoredDigits(draws=500).load(seed=0, oracle=True)
    assert benchmark.input_shape == (1, 8, 8)
    assert torch.equal(*benchmark.mechanism.inputs)
    coloured = ColoredDigits(draws=500).load(seed=0)
    for blind, seeing in zip(
        (*benchmark.train, *benchmark.validation), (*coloured.train, *coloured.validation), strict=True
    ):
        assert torch.equal(blind.x, seeing.x.sum(1, keepdim=True))
        assert torch.equal(blind.y, seeing.y)


def test_the_same_seed_is_the_same_data():
    assert same(ColoredDigits(draws=300).load(seed=5), ColoredDigits(draws=300).load(seed=5))


def test_another_seed_is_another_split_with_other_noise():
    first, second = (ColoredDigits(draws=300).load(seed) for seed in (5, 6))
    assert not same(first, second)
    assert pictures(first.mechanism.inputs[0]) != pictures(second.mechanism.inputs[0])
    assert not torch.equal(first.train[0].y, second.train[0].y)


def test_environments_of_one_trial_draw_independently(assert_share):
    a, b = ColoredDigits(draws=2000).load(seed=0).train
    assert not torch.equal(a.x.sum(1), b.x.sum(1))
    assert_share(a.y == b.y, 0.5)


def test_every_environment_and_every_trial_has_noise_of_its_own(assert_share):
    data = ColoredDigits(draws=10_000)
    wrong, odd = [], []
    for seed in (0, 1):
        split = data.split(seed)
        rows = data.rows(len(split.train.t), seed)
        for environment, own in zip(data.load(seed).train, rows, strict=True):
            wrong.append(environment.y.bool() != split.train.t[own])
            odd.append(colour(environment.x) != environment.y)
    for a, b in combinations(wrong, 2):
        assert_share(a & b, 0.25 * 0.25)
    for (a, p), (b, q) in combinations(zip(odd, (0.1, 0.2) * 2, strict=True), 2):
        assert_share(a & b, p * q)


@given(st.lists(st.integers(0, 100).map(lambda n: n / 100), min_size=1, max_size=6, unique=True))
def test_any_list_of_betas_makes_environments(assert_share, betas):
    benchmark = ColoredDigits(betas=tuple(betas), draws=400).load(seed=1)
    for made in (benchmark.train, benchmark.validation):
        assert [e.name for e in made] == [f"β={beta:g}" for beta in betas]
    for environment, beta in zip(benchmark.train, betas, strict=True):
        assert len(environment) == 400
        assert_share(colour(environment.x) != environment.y, beta)


def test_an_environment_is_the_same_whatever_the_others_are():
    def second(*betas: float) -> Environment:
        return ColoredDigits(betas=betas, draws=300).load(seed=2).train[1]

    assert torch.equal(second(0.1, 0.3).x, second(0.9, 0.3).x)


def test_test_environments_are_those_asked_for():
    assert ColoredDigits(test_betas=(0.0, 0.5, 1.0)).load(seed=0).mechanism.betas == (0.0, 0.5, 1.0)


def test_other_label_noise_is_drawn(assert_share):
    data = ColoredDigits(alpha=0.05, draws=20_000)
    split = data.split(seed=0)
    clean = [split.train.t[rows] for rows in data.rows(len(split.train.t), seed=0)]
    for environment, t in zip(data.load(seed=0).train, clean, strict=True):
        assert_share(environment.y.bool() != t, 0.05)


@pytest.mark.parametrize("data", ["colored-digits", "two-bit", "celeba", "cifar-mnist"])
def test_one_beta_twice_is_refused(data):
    with pytest.raises(BadValue, match="name each once"):
        DATA.create(data, {"betas": (0.1, 0.1)})
