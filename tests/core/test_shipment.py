"""Benchmarks taken apart, sent, and put together again."""

import numpy as np
import pytest
import torch

from invariance.core.environment import Benchmark, Environment, Mechanism
from invariance.core.families import Bernoulli
from invariance.core.inputs import Pixels, StoredRows, loaded
from invariance.core.row_file import RowFile
from invariance.core.shipment import INLINE_BYTES, Packer, unpacked


class Places:
    """An object store: arrays by number, read-only as in Ray's."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []

    def put(self, array: np.ndarray) -> int:
        copy = array.copy()
        copy.flags.writeable = False
        self.arrays.append(copy)
        return len(self.arrays) - 1

    def get(self, place: int) -> np.ndarray:
        return self.arrays[place]


ROWS = INLINE_BYTES // 8


def benchmark(seed: int) -> Benchmark:
    """Training rows of a seed, images and a mechanism that all seeds have in common, and a small environment."""
    x = torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(seed))
    pixels = Pixels.of(np.arange(2 * INLINE_BYTES, dtype=np.uint8).reshape(-1, 10))
    train = (Environment("a", x, x[:, 0]), Environment("small", x[:3], x[:3, 0], torch.ones(3)))
    both = torch.zeros(ROWS, 4), torch.ones(ROWS, 4)
    mechanism = Mechanism(both, torch.arange(ROWS) % 2 == 0, 0.25)
    test = (Environment("images", pixels[torch.arange(5)], torch.zeros(5)),)
    return Benchmark(Bernoulli(), train, (train[0],), test, mechanism)


@pytest.mark.parametrize("seed", [0, 1])
def test_what_is_sent_arrives(seed):
    places = Places()
    sent, got = benchmark(seed), unpacked(Packer(places.put).packed(benchmark(seed)), places.get)
    assert (got.family, got.mechanism.alpha, got.mechanism.betas) == (
        sent.family,
        sent.mechanism.alpha,
        sent.mechanism.betas,
    )
    for ours, theirs in zip(
        (*sent.train, *sent.validation, *sent.test), (*got.train, *got.validation, *got.test), strict=True
    ):
        assert theirs.name == ours.name
        assert type(theirs.x) is type(ours.x)
        assert torch.equal(loaded(theirs.x), loaded(ours.x))
        assert torch.equal(theirs.y, ours.y)
    assert torch.equal(got.train[1].weight, sent.train[1].weight)
    assert all(torch.equal(a, b) for a, b in zip(got.mechanism.inputs, sent.mechanism.inputs, strict=True))
    assert torch.equal(got.mechanism.t, sent.mechanism.t)


def test_rows_in_a_file_of_this_machine_arrive_as_numbers(tmp_path):
    places, whole = Places(), np.arange(ROWS * 4, dtype=np.float32).reshape(-1, 4)
    file = RowFile.temporary(tmp_path, whole.shape, whole.dtype)
    file.write(0, whole)
    stored = StoredRows.of(file)[10:]
    sent = Environment("a", stored, torch.zeros(len(stored)))
    got = unpacked(Packer(places.put).packed(sent), places.get)
    assert np.array_equal(loaded(got.x), whole[10:])


def test_an_array_is_put_once_however_many_benchmarks_have_it():
    places = Places()
    packer = Packer(places.put)
    packer.packed(benchmark(0))
    first = sum(array.nbytes for array in places.arrays)
    packer.packed(benchmark(0))
    assert sum(array.nbytes for array in places.arrays) == first
    packer.packed(benchmark(1))
    own = benchmark(1).train[0]
    assert sum(array.nbytes for array in places.arrays) == first + own.x.nbytes
