import gzip
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from invariance.core.environment import Benchmark
from invariance.data.colored_fmnist import ColoredFMNIST
from invariance.data.colored_mnist import ColoredMNIST
from invariance.data.constructions.colored_idx import ColoredIDX

DATA = {"mnist": ColoredMNIST, "fashion-mnist": ColoredFMNIST}
LABEL = {"mnist": range(5), "fashion-mnist": (5, 7, 9)}
KEPT = {"mnist": range(10), "fashion-mnist": (0, 1, 2, 3, 4, 5, 6, 7, 9)}


class Files:
    """What the published files hold, read another way."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.data = name, DATA[name]()
        self.train = self.pixels(folder / name / "train-images-idx3-ubyte.gz")
        self.test = self.pixels(folder / name / "t10k-images-idx3-ubyte.gz")
        self.train_labels = self.labels(folder / name / "train-labels-idx1-ubyte.gz")
        self.test_labels = self.labels(folder / name / "t10k-labels-idx1-ubyte.gz")
        self.benchmark: Benchmark = self.data.load(seed=0)

    def pixels(self, path: Path) -> NDArray[np.uint8]:
        whole = np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=16).reshape(-1, 28, 28)
        return whole[:, ::2, ::2]

    def labels(self, path: Path) -> NDArray[np.uint8]:
        return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=8)

    def rows(self, part: slice) -> NDArray[np.int64]:
        """Rows of the training file that take part."""
        kept = np.flatnonzero(np.isin(self.train_labels, KEPT[self.name]))
        return kept[(kept >= part.start) & (kept < part.stop)]


@pytest.fixture(scope="module", params=DATA)
def files(request, published) -> Files:
    return Files(published, request.param)


def grey(x: Tensor) -> NDArray[np.uint8]:
    """The images in an environment, without colour."""
    return x.sum(1).to(torch.uint8).numpy()


def sorted_bytes(images: NDArray[np.uint8]) -> list[bytes]:
    return sorted(image.tobytes() for image in images)


def colour(x: Tensor) -> Tensor:
    light = x.flatten(2).sum(2)
    assert (light.min(1).values == 0).all()
    return light.argmax(1)


def test_inputs_are_two_channels_of_every_second_pixel_as_bytes(files):
    assert files.benchmark.input_shape == (2, 14, 14)
    for environment in (*files.benchmark.train, *files.benchmark.validation):
        assert environment.x.shape[1:] == (2, 14, 14)
        assert environment.x.dtype == torch.uint8
        assert environment.x.min() == 0
        assert environment.x.max() == 255


def test_sizes_are_half_the_first_50000_rows_each_and_the_rest_of_the_files(files):
    benchmark = files.benchmark
    training, validation = len(files.rows(slice(0, 50_000))), len(files.rows(slice(50_000, 60_000)))
    if files.name == "mnist":
        assert (training, validation) == (50_000, 10_000)
    assert [len(e) for e in benchmark.train] == [training // 2] * 2
    assert [len(e) for e in benchmark.validation] == [validation] * 2
    assert len(benchmark.mechanism) == {"mnist": 10_000, "fashion-mnist": 9_000}[files.name]


def test_every_training_row_is_in_one_environment_and_no_validation_row_in_any(files):
    dealt = np.concatenate([grey(e.x) for e in files.benchmark.train])
    assert sorted_bytes(dealt) == sorted_bytes(files.train[files.rows(slice(0, 50_000))])
    for environment in files.benchmark.validation:
        assert np.array_equal(grey(environment.x), files.train[files.rows(slice(50_000, 60_000))])


def test_the_test_file_tests(files):
    kept = np.isin(files.test_labels, KEPT[files.name])
    assert np.array_equal(grey(files.benchmark.mechanism.inputs[0]), files.test[kept])
    expected = np.isin(files.test_labels[kept], LABEL[files.name])
    assert np.array_equal(files.benchmark.mechanism.t.numpy(), expected)


def test_validation_images_are_neither_trained_nor_tested_on(files):
    train, validation, test = (
        set(sorted_bytes(images))
        for images in (
            np.concatenate([grey(e.x) for e in files.benchmark.train]),
            grey(files.benchmark.validation[0].x),
            grey(files.benchmark.mechanism.inputs[0]),
        )
    )
    assert not validation & train
    assert not validation & test
    assert not train & test


def test_classes_are_as_unequal_as_published(files):
    t = np.isin(files.train_labels[files.rows(slice(0, 50_000))], LABEL[files.name])
    split = files.data.split(seed=0)
    assert split.train.t.sum() == t.sum()
    if files.name == "mnist":
        assert split.train.t.double().mean().item() == pytest.approx(0.51, abs=0.005)
    else:
        assert split.test.t.sum() == 3_000  # of 9,000
        assert split.train.t.double().mean().item() == pytest.approx(1 / 3, abs=0.005)


def test_label_noise_and_colour_have_the_shares_asked_for(files, assert_share):
    split = files.data.split(seed=0)
    rows = files.data.rows(len(split.train.t), seed=0)
    for environment, own, beta in zip(files.benchmark.train, rows, (0.1, 0.2), strict=True):
        assert environment.name == f"β={beta}"
        assert_share(environment.y.bool() != split.train.t[own], 0.25)
        assert_share(colour(environment.x) != environment.y, beta)
    for environment, beta in zip(files.benchmark.validation, (0.1, 0.2), strict=True):
        assert_share(environment.y.bool() != split.validation.t, 0.25)
        assert_share(colour(environment.x) != environment.y, beta)


def test_three_environments_are_thirds(files):
    data: ColoredIDX = type(files.data)(betas=(0.1, 0.15, 0.2))
    images = len(files.rows(slice(0, 50_000)))
    parts = data.rows(images, seed=0)
    assert [len(part) for part in parts] == [(images + 2 - e) // 3 for e in range(3)]
    assert torch.cat(parts).unique().tolist() == list(range(images))


def test_another_seed_deals_the_rows_out_differently(files):
    first, again, other = (files.data.rows(1000, seed) for seed in (0, 0, 1))
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], other[0])


def test_a_constant_predictor_scores_what_the_docstring_says(published):
    split = ColoredFMNIST().split(seed=0)
    footwear = split.test.t.double().mean().item()
    assert 0.75 * (1 - footwear) + 0.25 * footwear == pytest.approx(0.583, abs=5e-4)


@pytest.mark.usefixtures("published")
def test_the_last_rows_of_the_training_file_may_be_the_test():
    split = ColoredMNIST(test_pool="train-file").split(seed=0)
    usual = ColoredMNIST().split(seed=0)
    assert torch.equal(split.test.pixels, usual.validation.pixels)
    assert torch.equal(split.validation.pixels, usual.test.pixels)
    assert torch.equal(split.train.pixels, usual.train.pixels)


@pytest.mark.usefixtures("published")
def test_an_oracle_gets_grey_images():
    benchmark = ColoredMNIST().load(seed=0, oracle=True)
    assert benchmark.input_shape == (1, 14, 14)
    assert torch.equal(*benchmark.mechanism.inputs)
