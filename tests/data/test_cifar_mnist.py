import gzip
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from invariance.core.environment import Benchmark
from invariance.core.errors import BadValue, DataError
from invariance.data import DATA
from invariance.data.cifar_mnist import CIFARMNIST, Digits, stacked

BETAS = (0.001, 0.3)
SOME = CIFARMNIST(images=4000)


class Files:
    """What the published files hold, read another way."""

    def __init__(self, published: Path, folder: Path) -> None:
        self.label: dict[bytes, int] = {}
        self.part: dict[bytes, str] = {}
        for path in sorted(folder.glob("*_batch*.bin")):
            for record in np.fromfile(path, np.uint8).reshape(-1, 3073):
                self.label[record[1:].tobytes()] = int(record[0])
                self.part[record[1:].tobytes()] = "test" if path.name == "test_batch.bin" else "train"
        self.digit: dict[bytes, tuple[str, int]] = {}
        for part in ("train", "t10k"):
            images, labels = (
                np.frombuffer(gzip.decompress((published / f"mnist/{part}-{kind}-ubyte.gz").read_bytes()), np.uint8)
                for kind in ("images-idx3", "labels-idx1")
            )
            for row, (image, label) in enumerate(zip(images[16:].reshape(-1, 784), labels[8:], strict=True)):
                where = "test" if part == "t10k" else "train" if row < 50_000 else "validation"
                self.digit[image.tobytes()] = (where, int(label))


@pytest.fixture(scope="module")
def files(published, given_folder) -> Files:
    return Files(published, given_folder("cifar-10-batches-bin"))


@pytest.fixture(scope="module")
def benchmark(published, given_folder) -> Benchmark:
    given_folder("cifar-10-batches-bin")
    return SOME.load(seed=3)


def photographs(x: Tensor) -> list[bytes]:
    return [image.tobytes() for image in x[:, :, 32:].numpy()]


def digits(x: Tensor) -> list[bytes]:
    """The digits above; three equal channels with a black rim."""
    above = x[:, :, :32]
    assert torch.equal(above, above[:, :1].expand_as(above))
    inner = above[:, 0, 2:30, 2:30].contiguous()
    assert inner.sum() == above[:, 0].sum()
    return [image.tobytes() for image in inner.numpy()]


def clean(files: Files, x: Tensor) -> Tensor:
    return torch.tensor([files.label[image] == 2 for image in photographs(x)])


def spurious(files: Files, x: Tensor) -> Tensor:
    return torch.tensor([files.digit[image][1] for image in digits(x)]).bool()


def each(benchmark: Benchmark) -> list:
    return [pair for part in (benchmark.train, benchmark.validation) for pair in zip(part, BETAS, strict=True)]


def test_inputs_are_bytes_of_a_digit_above_a_photograph(benchmark):
    assert benchmark.input_shape == (3, 64, 32)
    assert all(e.x.dtype == torch.uint8 for e in (*benchmark.train, *benchmark.validation))


def test_nine_tenths_train_and_a_fifth_as_many_test(benchmark):
    assert [len(e) for e in benchmark.train] == [1800, 1800]
    assert [len(e) for e in benchmark.validation] == [400, 400]
    assert len(benchmark.mechanism) == 800
    assert SOME.size() == (sum(len(e) for e in benchmark.train), benchmark.input_shape)


def test_labels_are_wrong_as_often_as_alpha_says(benchmark, files, assert_share):
    for environment, _ in each(benchmark):
        t = clean(files, environment.x)
        for label in (False, True):
            assert_share((environment.y.bool() != t)[t == label], 0.1)


def test_the_digit_contradicts_the_noisy_label_as_often_as_beta_says(benchmark, files, assert_share):
    for environment, beta in each(benchmark):
        assert environment.name == f"β={beta}"
        y, t, s = environment.y.bool(), clean(files, environment.x), spurious(files, environment.x)
        assert_share(s != y, beta)
        assert_share((s != y)[y != t], beta)


def test_photographs_of_either_class_are_dealt_out_evenly(benchmark, files):
    for environment in benchmark.train:
        assert clean(files, environment.x).sum() == 900
    assert clean(files, benchmark.validation[0].x).sum() == 200
    assert benchmark.mechanism.t.sum() == 400


def test_no_photograph_has_two_purposes(benchmark, files):
    first, second = (photographs(e.x) for e in benchmark.train)
    parts = [set(first), set(second), set(photographs(benchmark.validation[0].x))]
    parts.append(set(photographs(benchmark.mechanism.inputs[0])))
    assert [len(part) for part in parts] == [1800, 1800, 400, 800]
    assert not any(a & b for a, b in combinations(parts, 2))
    assert [{files.part[image] for image in part} for part in parts] == [{"train"}] * 3 + [{"test"}]


def test_no_digit_has_two_purposes(benchmark, files):
    first, second = (set(digits(e.x)) for e in benchmark.train)
    assert not first & second
    seen = [first | second, set(digits(benchmark.validation[0].x)), set(digits(benchmark.mechanism.inputs[0]))]
    assert [{files.digit[image][0] for image in part} for part in seen] == [{"train"}, {"validation"}, {"test"}]


def test_a_test_photograph_is_paired_with_a_zero_and_with_a_one(benchmark, files):
    off, on = benchmark.mechanism.inputs
    assert photographs(off) == photographs(on)
    assert not spurious(files, off).any()
    assert spurious(files, on).all()
    assert torch.equal(clean(files, off), benchmark.mechanism.t)


def test_an_oracle_sees_the_same_photographs_without_digits(benchmark):
    blind = SOME.load(seed=3, oracle=True)
    assert blind.input_shape == (3, 32, 32)
    assert torch.equal(*blind.mechanism.inputs)
    seeing = (*benchmark.train, *benchmark.validation)
    for plain, seen in zip((*blind.train, *blind.validation), seeing, strict=True):
        assert torch.equal(plain.x, seen.x[:, :, 32:])
        assert torch.equal(plain.y, seen.y)


def test_a_seed_decides_everything(benchmark):
    again, other = (SOME.load(seed) for seed in (3, 4))
    for a, b, c in zip(again.train, benchmark.train, other.train, strict=True):
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.y, b.y)
        assert set(photographs(a.x)) != set(photographs(c.x))
    assert not torch.equal(other.mechanism.inputs[0], benchmark.mechanism.inputs[0])


def test_the_numbers_asked_for_are_those_made(files):
    few = CIFARMNIST(images=200, betas=(0.0, 0.5, 1.0), alpha=0.0, test_betas=(0.2,)).load(seed=0)
    assert [len(e) for e in few.train] == [60] * 3
    assert [len(e) for e in few.validation] == [20] * 3
    assert few.mechanism.betas == (0.2,)
    assert len(few.mechanism) == 40
    for environment in few.train:
        assert environment.y.sum() == 30
        assert torch.equal(environment.y.bool(), clean(files, environment.x))
    agree, _, oppose = ((spurious(files, e.x) == e.y.bool()).double().mean() for e in few.train)
    assert (agree, oppose) == (1, 0)


def test_each_digit_comes_as_rarely_as_it_can():
    zeros, ones = torch.arange(3, dtype=torch.uint8), torch.arange(10, 15, dtype=torch.uint8)
    kinds = Digits(*(kind.view(-1, 1, 1).expand(-1, 28, 28) for kind in (zeros, ones)))
    off, on = stacked(torch.zeros(7, 3, 32, 32, dtype=torch.uint8), kinds)
    assert off[:, 0, 5, 5].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert on[:, 0, 5, 5].tolist() == [10, 11, 12, 13, 14, 10, 11]


@pytest.mark.usefixtures("published")
def test_classes_that_are_not_there_are_named(given_folder):
    given_folder("cifar-10-batches-bin")
    with pytest.raises(DataError, match="no automobile; it has airplane, bird"):
        CIFARMNIST(classes=("automobile", "truck")).load(seed=0)


@pytest.mark.parametrize("classes", [("bird", "bird"), ("bird",), ("bird", "plane")])
def test_what_is_no_pair_of_classes_is_refused(classes):
    with pytest.raises(BadValue, match="classes"):
        DATA.create("cifar-mnist", {"classes": classes})


def test_the_fingerprint_follows_the_files(given_folder, tmp_path, monkeypatch):
    folder = given_folder("cifar-10-batches-bin")
    before = CIFARMNIST().fingerprint()
    (copy := tmp_path / "cifar-10-batches-bin").mkdir()
    for path in folder.glob("*.bin"):
        (copy / path.name).write_bytes(path.read_bytes()[: 3073 * 10])
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path))
    cut = CIFARMNIST().fingerprint()
    (copy / "data_batch_1.bin").write_bytes(bytes([5]) + (copy / "data_batch_1.bin").read_bytes()[1:])
    assert len({before, cut, CIFARMNIST().fingerprint()}) == 3


def test_it_is_said_how_many_photographs_are_here(given_folder, tmp_path, monkeypatch):
    given_folder("cifar-10-batches-bin")
    state = CIFARMNIST().availability()
    assert state.here == "complete"
    assert "12000 of 12000 images of airplane and bird" in state.about
    assert CIFARMNIST(classes=("automobile", "truck")).availability().here == "partial"
    for name in ("INVARIANCE_DATA", "INVARIANCE_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))
    nowhere = CIFARMNIST().availability()
    assert nowhere.here == "missing"
    assert "https://www.cs.toronto.edu" in nowhere.about
    (tmp_path / "cifar-10-batches-bin").mkdir()
    assert CIFARMNIST().availability().here == "missing"
    assert CIFARMNIST().fingerprint() == "missing"


@pytest.mark.usefixtures("published")
def test_a_few_records_are_too_few_and_half_a_record_is_none(given_folder, tmp_path, monkeypatch):
    folder = given_folder("cifar-10-batches-bin")
    (tmp_path / "mnist").symlink_to(folder.parent / "mnist")
    (copy := tmp_path / "cifar-10-batches-bin").mkdir()
    for name in ("data_batch_1.bin", "test_batch.bin"):
        (copy / name).write_bytes((folder / name).read_bytes()[: 3073 * 6])
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path))
    with pytest.raises(DataError, match="CIFAR-MNIST has too few images here for 2 training environments"):
        CIFARMNIST().load(seed=0)
    (copy / "test_batch.bin").write_bytes(bytes(4000))
    state = CIFARMNIST().availability()
    assert state.here == "missing"
    assert state.about.startswith(f"{copy / 'test_batch.bin'} has 4000 bytes")
