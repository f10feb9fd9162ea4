"""Batches from a file are those of the same rows in memory, in whatever order they are read."""

import numpy as np
import pytest
import torch

from invariance.core.environment import Environment
from invariance.core.families import Bernoulli
from invariance.core.inputs import StoredRows
from invariance.core.row_file import RowFile
from invariance.methods.irmv1 import IRMv1
from invariance.models.mlp import MLP
from invariance.recipes.recipe import Recipe
from invariance.training import batch_reader
from invariance.training.batch_reader import BatchReader
from invariance.training.loop import Training
from invariance.training.sampler import BatchSampler

SIZES, BATCH, BATCHES = (50, 7, 31), 12, 40


@pytest.fixture
def rows(tmp_path) -> tuple[np.ndarray, StoredRows]:
    """Rows in memory, and in a file that holds others around them."""
    whole = np.random.default_rng(0).normal(size=(sum(SIZES) + 9, 3)).astype(np.float32)
    file = RowFile.temporary(tmp_path, whole.shape, whole.dtype)
    file.write(0, whole)
    return whole[4:-5], StoredRows.of(file)[4:-5]


@pytest.fixture
def small(monkeypatch):
    """Windows of two batches, written five rows at a time."""
    monkeypatch.setattr(batch_reader, "WINDOW_BYTES", 2 * BATCH * 12)
    monkeypatch.setattr(batch_reader, "PIECE_BYTES", 5 * 12)


def sampler() -> BatchSampler:
    return BatchSampler(["a", "b", "c"], SIZES, BATCH, 0)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "order",
    [range(BATCHES), [*range(13), 5, 0, 12, 13], [20, 21, 30, 31, 3, 32, 39]],
    ids=["in order", "back", "ahead"],
)
def test_batches_are_those_of_the_sampler(rows, order):
    x, stored = rows
    expected, reader = sampler(), BatchReader.of(stored, sampler())
    for t in order:
        numbers, inputs = reader.read(t, BATCHES)
        assert torch.equal(numbers.long(), expected.rows(t))
        assert np.array_equal(inputs, x[expected.rows(t)])


def test_rows_in_memory_and_full_batches_need_no_reader(rows):
    x, stored = rows
    assert BatchReader.of(torch.from_numpy(x), sampler()) is None
    assert BatchReader.of(StoredRows.of(x), sampler()) is None
    assert BatchReader.of(stored, None) is None


@pytest.mark.usefixtures("small")
def test_a_run_on_rows_in_a_file_ends_with_the_weights_of_one_in_memory(rows):
    x, stored = rows
    ends = np.cumsum(SIZES)
    weights = []
    for inputs in (torch.from_numpy(x), stored):
        environments = [
            Environment(name, inputs[end - size : end], torch.arange(size) % 2.0)
            for name, size, end in zip("abc", SIZES, ends.tolist(), strict=True)
        ]
        recipe = Recipe(batch_size=BATCH, penalty_batch_size=2 * BATCH, epochs=3, warmup=0.5, average=0.5)
        training = Training(MLP(4).build((3,), 1), IRMv1(), environments, recipe, Bernoulli(), 0)
        while not training.finished:
            training.advance()
            training.current()
        weights.append(torch.cat([p.flatten() for p in training.current().parameters()]))
        assert (training.reader is not None) == (inputs is stored)
    assert torch.equal(*weights)
