"""Images as bytes that stay where they are."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from invariance.core import row_file
from invariance.core.batch import Batch
from invariance.core.environment import Benchmark, Environment, Mechanism
from invariance.core.errors import BadValue, DataError
from invariance.core.families import Bernoulli
from invariance.core.inputs import Pixels, StoredRows, chosen, floats, joined, loaded
from invariance.core.row_file import RowFile
from invariance.core.seeding import generator
from invariance.evaluation.diagnostics import scores_and_diagnostics
from invariance.evaluation.landscape import loss
from invariance.evaluation.scores import exact, score
from invariance.methods.erm import ERM
from invariance.methods.irmv0 import IRMv0
from invariance.models.base import Model
from invariance.models.mlp import MLP
from invariance.recipes.recipe import Recipe
from invariance.training.train import train


def images(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 3, 4, 4), dtype=np.uint8)


@pytest.fixture
def stored(tmp_path) -> Pixels:
    """Forty images in a file."""
    np.save(tmp_path / "images.npy", images(40))
    return Pixels.of(np.load(tmp_path / "images.npy", mmap_mode="r"))


@pytest.mark.parametrize(("gap", "piece"), [(0, 1), (24, 60), (1 << 14, 1 << 22)], ids=["single", "few", "all"])
def test_rows_of_an_open_file_are_those_of_the_array(tmp_path, monkeypatch, gap, piece):
    monkeypatch.setattr(row_file, "GAP_BYTES", gap)
    monkeypatch.setattr(row_file, "PIECE_BYTES", piece)
    whole = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    file = RowFile.temporary(tmp_path, whole.shape, whole.dtype)
    file.write(0, whole)
    stored = StoredRows.of(file)
    for rows in ([7, 8, 9, 3, 3, 39, 0], [], [5], list(range(40)), [12, 30, 11, 12]):
        assert np.array_equal(stored[torch.tensor(rows, dtype=torch.long)].tensor(), whole[rows])
    assert np.array_equal(stored[3:17].tensor(), whole[3:17])
    assert np.array_equal(stored[5:30:4].tensor(), whole[5:30:4])
    mask = np.arange(40) % 3 > 0
    assert np.array_equal(stored[mask][1:9].tensor(), whole[mask][1:9])
    both = joined([stored[20:30], stored[torch.tensor([1, 35])]])
    assert np.array_equal(loaded(both), whole[[*range(20, 30), 1, 35]])
    file.file.truncate(whole.nbytes - 4)
    with pytest.raises(BadValue, match="is shorter than it was"):
        stored[39:].tensor()


def test_a_disk_without_room_for_rows_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"^cannot keep 1.0 GB of rows in .*; free some space there"):
        RowFile.temporary(tmp_path / "file", (10**9,), np.dtype(np.uint8))


def test_rows_are_those_of_the_file_in_any_order_and_more_than_once(stored):
    rows = torch.tensor([7, 3, 3, 39, 0])
    assert torch.equal(stored[rows].tensor(), torch.from_numpy(images(40))[rows])
    assert torch.equal(stored[rows][1:3].tensor(), torch.from_numpy(images(40))[[3, 3]])
    some = np.arange(40) % 3 == 0
    assert np.array_equal(stored[some].tensor().numpy(), images(40)[some])
    assert np.array_equal(stored[np.array([5, 2])].tensor().numpy(), images(40)[[5, 2]])
    assert torch.equal(stored[torch.arange(40) % 2 == 1].tensor(), torch.from_numpy(images(40))[1::2])
    assert torch.equal(torch.cat([part.tensor() for part in stored.split(7)]), torch.from_numpy(images(40)))
    assert (len(stored), stored.shape, stored.dtype) == (40, (40, 3, 4, 4), torch.uint8)


def test_several_arrays_are_joined_without_a_copy_and_the_same_one_only_once(stored):
    other = torch.from_numpy(images(5, seed=1))
    whole = joined([stored[:3], other, stored[3:5], Pixels.of(other)])
    assert isinstance(whole, Pixels)
    assert [len(array) for array in whole.arrays] == [40, 5, 5]
    assert whole.arrays[0] is stored.arrays[0]
    parts = [stored[:3].tensor(), other, stored[3:5].tensor(), other]
    assert torch.equal(whole.tensor(), torch.cat(parts))
    assert torch.equal(joined([whole, whole[2:4]]).tensor(), torch.cat([*parts, whole[2:4].tensor()]))


def test_a_bit_chooses_between_two_looks(stored):
    bits = torch.tensor([True, False, True])
    off, on = stored[:3], stored[10:13]
    expected = torch.where(bits.view(-1, 1, 1, 1), on.tensor(), off.tensor())
    assert torch.equal(loaded(chosen(bits, off, on)), expected)
    assert torch.equal(loaded(chosen(bits, off.tensor(), on.tensor())), expected)
    assert torch.equal(loaded(chosen(bits, off, on.tensor())), expected)


def test_bytes_become_numbers_between_0_and_1_and_numbers_stay_as_they_are(stored):
    x = torch.from_numpy(images(40)).float() / 255
    assert torch.equal(floats(stored), x)
    assert torch.equal(floats(stored.tensor()), x)
    assert floats(x) is x


def test_pixels_are_bytes():
    with pytest.raises(BadValue, match="pixels are bytes; got float32"):
        Pixels.of(np.zeros((2, 3), np.float32))
    environments = [Environment(name, torch.zeros(2, 3, dtype=torch.int32), torch.zeros(2)) for name in "ab"]
    with pytest.raises(BadValue, match=r"inputs are torch.int32 .* floating point or bytes"):
        Batch.of(environments, Bernoulli())


def twice(stored: Pixels) -> tuple[list[Environment], list[Environment]]:
    """The same environments as pixels and as numbers."""
    y = (torch.arange(40) % 3 == 0).float()
    as_pixels = [Environment(name, stored[rows], y[rows]) for name, rows in (("a", slice(22)), ("b", slice(22, 40)))]
    return as_pixels, [Environment(e.name, floats(e.x), e.y) for e in as_pixels]


def small(slice_rows: int, keep: int) -> Model:
    model = MLP(width=8).build((3, 4, 4), 1)
    model.slice, model.keep = slice_rows, keep
    return model


@pytest.mark.parametrize(("batch_size", "slice_rows", "keep"), [(8, 4096, 65536), (None, 7, 65536), (None, 7, 10)])
@pytest.mark.parametrize("objective", [ERM(), IRMv0()], ids=lambda o: o.title)
def test_training_on_pixels_is_training_on_their_numbers_to_the_last_bit(
    stored, objective, batch_size, slice_rows, keep
):
    recipe = Recipe(batch_size=batch_size, epochs=2, lr=0.01)
    ends = []
    for environments in twice(stored):
        *_, last = train(small(slice_rows, keep), objective, environments, recipe, family=Bernoulli())
        ends.append(last.state())
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[1])


def test_everything_that_looks_at_a_model_takes_pixels(stored):
    model, family = small(7, 65536), Bernoulli()
    as_pixels, as_numbers = twice(stored)
    pixels, numbers = (scores_and_diagnostics(model, IRMv0(), made, family) for made in (as_pixels, as_numbers))
    assert pixels == numbers
    assert score(model, as_pixels, family) == score(model, as_numbers, family)
    t = torch.arange(20) % 2 == 0
    looks = (stored[:20], stored[20:])
    made = [Mechanism(inputs, t, 0.25) for inputs in (looks, (floats(looks[0]), floats(looks[1])))]
    assert exact(model, made[0], family) == exact(model, made[1], family)
    drawn = [mechanism.take(torch.arange(4, 20)).environment(0.3, generator(0, "test")) for mechanism in made]
    assert torch.equal(floats(drawn[0].x), drawn[1].x)
    assert torch.equal(drawn[0].y, drawn[1].y)
    assert drawn[0].y.dtype == torch.float32
    losses = [loss(model, Benchmark(family, tuple(as_numbers), mechanism=mechanism)) for mechanism in made]
    assert losses[0] == losses[1]


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="the peak of memory is read from Linux")
def test_streaming_a_file_does_not_fill_the_memory(tmp_path):
    """A file of 300 MB goes through a model in slices, in a process of its own; the allocator keeps some of it."""
    code = f"""
    import numpy as np, torch
    from pathlib import Path
    from invariance.evaluation.scores import outputs
    from invariance.models.base import Model
    from invariance.core.inputs import Pixels

    def peak():
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024

    torch.set_num_threads(1)
    with open({str(tmp_path / "big.npy")!r}, "wb") as file:
        header = {{"descr": "|u1", "fortran_order": False, "shape": (1000, 300_000)}}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + 300_000_000)
    pixels = Pixels.of(np.load({str(tmp_path / "big.npy")!r}, mmap_mode="r"))
    model = Model(torch.nn.AvgPool1d(3000), torch.nn.Linear(100, 1))
    model.slice = 10
    before = peak()
    assert outputs(model, pixels[torch.randperm(1000, generator=torch.Generator())], rows=10).shape == (1000, 1)
    print(peak() - before)
    """
    lines = "\n".join(line[4:] for line in code.splitlines())
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 200
