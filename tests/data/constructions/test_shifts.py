import gzip
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from invariance.core.environment import Benchmark, Environment
from invariance.core.errors import BadValue
from invariance.core.seeding import generator
from invariance.data import DATA
from invariance.data.colored_digits import ColoredDigits
from invariance.data.constructions.shifts import fractions, shaded, thinned
from invariance.experiments.run import execute
from invariance.experiments.spec import Spec

FOLDER = {"colored-mnist": "mnist", "colored-fmnist": "fashion-mnist"}
TAKING_PART = {"colored-mnist": range(10), "colored-fmnist": (0, 1, 2, 3, 4, 5, 6, 7, 9)}
LABEL = {"colored-mnist": range(5), "colored-fmnist": (5, 7, 9)}
FIRST = {"colored-mnist": (1, 2, 6, 7), "colored-fmnist": (0, 1, 2, 5)}
SECOND = {"colored-mnist": (3, 4, 8, 9), "colored-fmnist": (3, 4, 6, 9)}

BETAS = (0.1, 0.2)
P_E = (2 / 3, 1 / 3)  # p = 0.5
IMAGES = 20_000  # enough for sharp shares, and all cases fit into memory


@cache
def contents(folder: Path, name: str, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Every second pixel of the images in a published file, and their classes."""
    images, labels = (
        np.frombuffer(gzip.decompress((folder / FOLDER[name] / f"{part}-{kind}-ubyte.gz").read_bytes()), np.uint8)
        for kind in ("images-idx3", "labels-idx1")
    )
    pixels, classes = images[16:].reshape(-1, 28, 28)[:, ::2, ::2], labels[8:]
    return pixels, classes


@cache
def class_of(folder: Path, name: str) -> dict[bytes, int]:
    """The class of every image; no two of them are the same, even so small."""
    known = {
        image.tobytes(): int(label)
        for part in ("train", "t10k")
        for image, label in zip(*contents(folder, name, part), strict=True)
    }
    assert len(known) == 70_000
    return known


class Case:
    """A data set with a shift, loaded, beside what the published files hold."""

    def __init__(self, folder: Path, name: str, shift: str) -> None:
        self.folder, self.name, self.shift = folder, name, shift
        self.class_of = class_of(folder, name)
        self.benchmark = self.load()

    def load(self, seed: int = 0, *, oracle: bool = False, **fields: object) -> Benchmark:
        return DATA[self.name](shift=self.shift, images=IMAGES, **fields).load(seed, oracle=oracle)

    def classes(self, x: Tensor) -> Tensor:
        """The files' classes of coloured images."""
        return torch.tensor([self.class_of[image] for image in pictures(x)])

    def clean(self, x: Tensor) -> Tensor:
        return torch.isin(self.classes(x), torch.tensor(LABEL[self.name]))

    def count(self, *classes: int) -> int:
        """How many images of some classes train."""
        return int(np.isin(contents(self.folder, self.name, "train")[1][:IMAGES], classes).sum())

    def each(self) -> list[tuple[Environment, float, float]]:
        """All training and validation environments, with β and p_e."""
        parts = (self.benchmark.train, self.benchmark.validation)
        return [row for part in parts for row in zip(part, BETAS, P_E, strict=True)]


def pictures(x: Tensor) -> list[bytes]:
    return [image.tobytes() for image in x.sum(1).to(torch.uint8).numpy()]


def channel(x: Tensor) -> Tensor:
    """Which channel holds the image; the others must be black."""
    lit = x.flatten(2).sum(2) > 0
    assert (lit.sum(1) == 1).all()
    return lit.int().argmax(1)


def colour(x: Tensor) -> Tensor:
    """The spurious bit: the second half of the channels."""
    return channel(x) >= x.shape[1] // 2


def tensors(benchmark: Benchmark) -> list[Tensor]:
    drawn = [t for e in (*benchmark.train, *benchmark.validation) for t in (e.x, e.y)]
    return [*drawn, *benchmark.mechanism.inputs, benchmark.mechanism.t]


def same(a: Benchmark, b: Benchmark) -> bool:
    return all(torch.equal(x, y) for x, y in zip(tensors(a), tensors(b), strict=True))


@pytest.fixture(scope="module")
def case(published):
    return cache(lambda name, shift: Case(published, name, shift))


@pytest.fixture(params=["colored-mnist", pytest.param("colored-fmnist", marks=pytest.mark.slow)])
def name(request) -> str:
    """The construction is the same for both; some tests below are about fashion in particular."""
    return request.param


every_shift = pytest.mark.parametrize("shift", ["class", "digit", "colour"])
thinning = pytest.mark.parametrize("shift", ["class", "digit"])

# Without a shift


def obvious(folder: Path, name: str, seed: int) -> list[tuple[list[np.ndarray], list[bool]]]:
    """Inputs and labels of the two training environments and the two validation environments, image by image."""
    pixels, classes = contents(folder, name, "train")
    rows = [i for i, label in enumerate(classes) if label in TAKING_PART[name]]
    train, held_out = [i for i in rows if i < 50_000], [i for i in rows if i >= 50_000]
    order = torch.randperm(len(train), generator=generator(seed, "split")).tolist()
    made = []
    for part, own in (
        ("train", [train[i] for i in order[0::2]]),
        ("train", [train[i] for i in order[1::2]]),
        ("validation", held_out),
        ("validation", held_out),
    ):
        beta = BETAS[len(made) % 2]
        random = generator(seed, part, beta)
        flipped, odd = (torch.rand(len(own), generator=random) for _ in range(2))
        x, y = [], []
        for i, flip, other in zip(own, flipped < 0.25, odd < beta, strict=True):
            y.append((classes[i] in LABEL[name]) ^ bool(flip))
            x.append(np.zeros((2, 14, 14), np.uint8))
            x[-1][int(y[-1] ^ bool(other))] = pixels[i]
        made.append((x, y))
    return made


@pytest.mark.parametrize("name", FOLDER)
def test_without_a_shift_nothing_has_changed(published, name):
    benchmark = DATA[name]().load(seed=5)
    expected = obvious(published, name, seed=5)
    for environment, (x, y) in zip((*benchmark.train, *benchmark.validation), expected, strict=True):
        assert np.array_equal(environment.x.numpy(), np.stack(x))
        assert environment.y.tolist() == y


def test_without_a_shift_p_says_nothing():
    plain, other = (ColoredDigits(draws=100, p=p).load(seed=0) for p in (0.5, 0.0))
    assert same(plain, other)


# The knob


@given(st.floats(0, 1))
def test_two_environments_have_the_fractions_of_rex(p):
    assert fractions((0.1, 0.2), p) == [1 / (1 + p), p / (1 + p)]
    assert fractions((0.2, 0.1), p) == [p / (1 + p), 1 / (1 + p)]


def test_more_environments_lie_in_equal_steps_between():
    assert fractions((0.1, 0.9, 0.2, 0.3), p=0.5) == pytest.approx([6 / 9, 3 / 9, 5 / 9, 4 / 9])
    assert fractions((0.3,), p=0.0) == [0.5]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6, unique=True), st.floats(0, 1))
def test_fractions_are_shares_around_a_half(betas, p):
    each = fractions(betas, p)
    assert all(0 <= fraction <= 1 for fraction in each)
    assert sum(each) / len(each) == pytest.approx(0.5)
    assert all(fraction == 0.5 for fraction in fractions(betas, 1.0))


@pytest.mark.parametrize("fields", [{"shift": "hue"}, {"p": 1.5}, {"p": -0.1}])
def test_what_is_no_shift_is_refused(fields):
    with pytest.raises(BadValue, match=next(iter(fields))):
        DATA.create("colored-mnist", fields)


# What holds under every shift


@every_shift
def test_colour_and_label_noise_are_as_without_a_shift(case, name, shift, assert_share):
    it = case(name, shift)
    for environment, beta, _ in it.each():
        assert environment.name == f"β={beta:g}"
        y, s, t = environment.y.bool(), colour(environment.x), it.clean(environment.x)
        assert_share(s != y, beta)
        for label in (False, True):
            assert_share((y != t)[t == label], 0.25)
            assert_share((s != y)[t == label], beta)


@every_shift
def test_no_image_has_two_purposes(case, name, shift):
    benchmark = case(name, shift).benchmark
    first, second = (pictures(e.x) for e in benchmark.train)
    validation = {image for e in benchmark.validation for image in pictures(e.x)}
    parts = [set(first), set(second), validation, set(pictures(benchmark.mechanism.inputs[0]))]
    assert (len(parts[0]), len(parts[1])) == (len(first), len(second))
    assert not any(a & b for a, b in combinations(parts, 2))


@every_shift
def test_the_test_has_all_images_of_the_classes_that_take_part(case, name, shift):
    it = case(name, shift)
    mechanism = it.benchmark.mechanism
    there = (*FIRST[name], *SECOND[name]) if shift == "digit" else TAKING_PART[name]
    pixels, classes = contents(it.folder, name, "t10k")
    kept = np.isin(classes, there)
    off, on = mechanism.inputs
    assert pictures(off) == pictures(on) == [image.tobytes() for image in pixels[kept]]
    assert mechanism.t.tolist() == np.isin(classes[kept], LABEL[name]).tolist()
    assert not colour(off).any()
    assert colour(on).all()


@every_shift
def test_images_come_in_no_order(case, name, shift, assert_share):
    it = case(name, shift)
    for environment in it.benchmark.train:
        classes = it.classes(environment.x)
        for label in classes.unique():
            share = (classes == label).double().mean().item()
            assert_share((classes == label)[:2000], share)


@every_shift
def test_a_seed_decides_everything(case, name, shift):
    it = case(name, shift)
    assert same(it.load(seed=0), it.benchmark)
    other = it.load(seed=1)
    for a, b in zip(other.train, it.benchmark.train, strict=True):
        assert set(pictures(a.x)) != set(pictures(b.x))
    for a, b in zip(other.validation, it.benchmark.validation, strict=True):
        assert set(pictures(a.x)) != set(pictures(b.x)) or shift == "colour"
    assert torch.equal(other.mechanism.inputs[0], it.benchmark.mechanism.inputs[0]) == (shift != "colour")


@every_shift
def test_an_oracle_sees_the_same_images_without_colour(case, name, shift):
    it = case(name, shift)
    blind = it.load(oracle=True)
    assert blind.input_shape == (1, 14, 14)
    assert torch.equal(*blind.mechanism.inputs)
    assert torch.equal(blind.mechanism.inputs[0], it.benchmark.mechanism.inputs[1].sum(1, keepdim=True))
    for grey, (seen, _, _) in zip((*blind.train, *blind.validation), it.each(), strict=True):
        assert torch.equal(grey.x, seen.x.sum(1, keepdim=True))
        assert torch.equal(grey.y, seen.y)


@every_shift
def test_a_model_trains(published, name, shift):
    changes = {
        "data": {"shift": shift, "images": 1000},
        "model": {"width": 8},
        "recipe": {"epochs": 3},
    }
    spec = Spec.of(name, "rex", "full-batch", changes=changes)
    done = execute(Spec.from_json(spec.to_json()))
    assert done.run.spec.data.shift == shift
    assert len(done.run.history[-1].test.by_environment) == 19
    assert done.benchmark.input_shape == ((4 if shift == "colour" else 2), 14, 14)


# Classes and digits


def test_a_shift_of_classes_keeps_so_many_of_each(case, name, assert_share):
    it = case(name, "class")
    one = it.count(*LABEL[name])
    zero = it.count(*TAKING_PART[name]) - one
    for environment, _, fraction in it.each():
        kept = fraction * zero, (1 - fraction) * one
        assert_share(~it.clean(environment.x), kept[0] / sum(kept))
    for environment, fraction in zip(it.benchmark.train, P_E, strict=True):
        kept = (fraction * zero + (1 - fraction) * one) / 2
        assert len(environment) == pytest.approx(kept, abs=4 * (kept / 2) ** 0.5)


def test_validation_keeps_exactly_the_fractions(case, name):
    _, classes = contents(case(name, "class").folder, name, "train")
    there = np.isin(classes, TAKING_PART[name])[50_000:]
    t = np.isin(classes, LABEL[name])[50_000:][there]
    for environment, fraction in zip(case(name, "class").benchmark.validation, P_E, strict=True):
        clean = case(name, "class").clean(environment.x)
        assert (~clean).sum() == int(fraction * (~t).sum())
        assert clean.sum() == int((1 - fraction) * t.sum())


def test_a_shift_of_digits_weighs_the_halves_of_each_class(case, name, assert_share):
    it = case(name, "digit")
    for environment, _, fraction in it.each():
        classes = it.classes(environment.x)
        assert set(classes.tolist()) == {*FIRST[name], *SECOND[name]}
        for label in (True, False):
            first, second = ([c for c in half[name] if (c in LABEL[name]) == label] for half in (FIRST, SECOND))
            kept = fraction * it.count(*first), (1 - fraction) * it.count(*second)
            of_label = it.clean(environment.x) == label
            assert_share(torch.isin(classes[of_label], torch.tensor(first)), kept[0] / sum(kept))


def test_dropped_digits_are_nowhere(case, name):
    it = case(name, "digit")
    dropped = {"colored-mnist": {0, 5}, "colored-fmnist": {7, 8}}[name]
    inputs = [environment.x for environment, _, _ in it.each()] + [it.benchmark.mechanism.inputs[0]]
    for x in inputs:
        assert not dropped & set(it.classes(x).tolist())


@thinning
def test_what_is_kept_of_a_group_is_like_the_group(case, name, shift, assert_share):
    it = case(name, shift)
    groups = {
        "class": [LABEL[name], [c for c in TAKING_PART[name] if c not in LABEL[name]]],
        "digit": [
            [c for c in half[name] if (c in LABEL[name]) == label] for half in (FIRST, SECOND) for label in (0, 1)
        ],
    }
    for environment in it.benchmark.train:
        classes = it.classes(environment.x)
        for group in groups[shift]:
            chosen = classes[torch.isin(classes, torch.tensor(list(group)))]
            for label in group:
                assert_share(chosen == label, it.count(label) / it.count(*group))


def test_classes_are_extreme_at_zero_and_even_at_one(case, name, assert_share):
    it = case(name, "class")
    low, high = it.load(p=0.0).train
    assert not it.clean(low.x).any()
    assert it.clean(high.x).all()
    assert len(low) + len(high) == pytest.approx(it.count(*TAKING_PART[name]) / 2, abs=500)
    for environment in it.load(p=1.0).train:
        assert_share(it.clean(environment.x), it.count(*LABEL[name]) / it.count(*TAKING_PART[name]))


def test_constant_predictors_score_what_the_docstring_says_of_fashion(case):
    t = case("colored-fmnist", "digit").benchmark.mechanism.t.double().mean().item()
    assert t == 0.25
    assert 0.75 * (1 - t) + 0.25 * t == 0.625


def test_the_other_pool_is_shifted_alike(case, assert_share):
    it = case("colored-mnist", "digit")
    benchmark = it.load(test_pool="train-file")
    assert (
        len(benchmark.mechanism)
        == np.isin(contents(it.folder, it.name, "train")[1][50_000:], (*FIRST[it.name], *SECOND[it.name])).sum()
    )
    tested = set(pictures(it.benchmark.mechanism.inputs[0]))
    for environment, fraction in zip(benchmark.validation, P_E, strict=True):
        assert set(pictures(environment.x)) <= tested
        first = torch.isin(it.classes(environment.x), torch.tensor(FIRST[it.name]))
        assert first.double().mean().item() == pytest.approx(fraction, abs=0.02)


@given(st.integers(0, 200), st.integers(0, 200), st.floats(0, 1))
def test_thinning_keeps_whole_shares_in_order(zeros, ones, fraction):
    t = torch.arange(zeros + ones) >= zeros
    first = torch.arange(zeros + ones) % 3 == 0
    rows = thinned(t, first, fraction, generator(0, "rows"))
    assert torch.equal(rows, rows.unique())
    for label in (False, True):
        for half, share in ((True, fraction), (False, 1 - fraction)):
            group = (t == label) & (first == half)
            assert group[rows].sum() == int(share * int(group.sum()))


# Colours


def test_shades_are_drawn_as_often_as_p_says(case, name, assert_share):
    for environment, _, fraction in case(name, "colour").each():
        assert environment.x.shape[1:] == (4, 14, 14)
        held, s = channel(environment.x), colour(environment.x)
        assert_share(held[~s] == 0, fraction)
        assert_share(held[s] == 2, 1 - fraction)
        for label in (0, 1):  # shades say nothing of the label that the colour does not
            of_label = environment.y == label
            assert_share(held[~s & of_label] == 0, fraction)
            assert_share(held[s & of_label] == 2, 1 - fraction)


def test_shades_of_the_test_are_even_and_independent(case, name, assert_share):
    off, on = (channel(x) for x in case(name, "colour").benchmark.mechanism.inputs)
    assert_share(off == 0, 0.5)
    assert_share(on == 2, 0.5)
    assert_share((off == 0) & (on == 2), 0.25)


def test_a_shift_of_colours_drops_nothing_and_draws_the_labels_of_no_shift(case, name):
    shifted, plain = case(name, "colour").benchmark, case(name, "none").benchmark
    for a, b in zip((*shifted.train, *shifted.validation), (*plain.train, *plain.validation), strict=True):
        assert torch.equal(a.y, b.y)
        assert torch.equal(a.x.unflatten(1, (2, 2)).sum(2), b.x)
    assert same(case(name, "colour").load(oracle=True), case(name, "none").load(oracle=True))


@pytest.mark.parametrize(("p", "held"), [(0.0, [{0, 3}, {1, 2}]), (1.0, [{0, 1, 2, 3}] * 2)])
def test_shades_are_extreme_at_zero_and_mixed_at_one(p, held):
    benchmark = ColoredDigits(shift="colour", p=p, draws=500).load(seed=0)
    assert [set(channel(e.x).tolist()) for e in benchmark.train] == held


def test_shades_hold_the_whole_image():
    grey = torch.rand(50, 1, 3, 3, generator=generator(0, "grey"))
    for look in shaded(grey, 0.3, generator(0, "shades")):
        assert torch.equal(look.sum(1, keepdim=True), grey)


# Other data


@every_shift
def test_embedded_digits_are_shifted_too(shift, assert_share):
    data = ColoredDigits(shift=shift)
    split = data.split(seed=0)
    class_of = dict(zip((i.numpy().tobytes() for i in split.train.pixels), split.train.classes.tolist(), strict=True))
    for environment, beta, fraction in zip(data.load(seed=0).train, BETAS, P_E, strict=True):
        digit = torch.tensor([class_of[image.numpy().tobytes()] for image in environment.x.sum(1)])
        assert_share(colour(environment.x) != environment.y, beta)
        assert_share((digit < 5) != environment.y, 0.25)
        if shift == "class":
            ones = split.train.t.double().mean().item()
            assert_share(digit >= 5, fraction * (1 - ones) / (fraction * (1 - ones) + (1 - fraction) * ones))
        if shift == "digit":
            assert set(digit.tolist()) == {1, 2, 3, 4, 6, 7, 8, 9}


@pytest.mark.usefixtures("published")
def test_kamaths_failure_case_is_another_noise_and_other_betas(assert_share):
    data = DATA.create("colored-mnist", {"alpha": 0.1, "betas": [0.2, 0.25]})
    split, benchmark = data.split(seed=0), data.load(seed=0)
    rows = data.rows(len(split.train.t), seed=0)
    for environment, own, beta in zip(benchmark.train, rows, (0.2, 0.25), strict=True):
        assert environment.name == f"β={beta:g}"
        assert_share(environment.y.bool() != split.train.t[own], 0.1)
        assert_share(colour(environment.x) != environment.y, beta)
    assert benchmark.mechanism.alpha == 0.1
    assert len(benchmark.mechanism.betas) == 19
