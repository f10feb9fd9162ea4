import hashlib
import tarfile

import numpy as np
import pytest
import torch

from invariance.core.errors import DataError
from invariance.data.formats import cifar
from invariance.data.formats.cifar import FOLDER, NAMES, RECORD, batches, located, read
from invariance.data.formats.downloads import File


def record(label: int, first: int) -> bytes:
    """A label, then bytes that count up from ``first``."""
    return bytes([label]) + (np.arange(RECORD - 1, dtype=np.int64) + first).astype(np.uint8).tobytes()


def test_a_record_is_a_label_and_three_planes_of_rows(tmp_path):
    (path := tmp_path / "batch.bin").write_bytes(record(2, 7))
    pixels, classes = read([path])
    assert classes.tolist() == [2]
    assert pixels.shape == (1, 3, 32, 32)
    assert pixels.dtype == torch.uint8
    for channel, row, column in ((0, 0, 0), (0, 0, 31), (0, 1, 0), (1, 0, 0), (2, 31, 31)):
        assert pixels[0, channel, row, column] == (1024 * channel + 32 * row + column + 7) % 256


@pytest.mark.parametrize("many", [1, 2, 5])
def test_files_may_have_any_number_of_records(tmp_path, many):
    (one := tmp_path / "1.bin").write_bytes(b"".join(record(i, i) for i in range(many)))
    (two := tmp_path / "2.bin").write_bytes(record(9, 0))
    records = read([one, two])
    assert records.classes.tolist() == [*range(many), 9]
    assert records.pixels[:, 0, 0, 0].tolist() == [*range(many), 0]


@pytest.mark.parametrize("size", [0, 1, RECORD - 1, RECORD + 1, 10 * RECORD + 3])
def test_a_file_that_is_cut_short_is_refused_in_one_line(tmp_path, size):
    (path := tmp_path / "batch.bin").write_bytes(bytes(size))
    with pytest.raises(DataError, match=f"batch.bin has {size} bytes") as caught:
        read([path])
    assert "\n" not in str(caught.value)


def test_labels_beyond_nine_are_refused(tmp_path):
    (path := tmp_path / "batch.bin").write_bytes(record(0, 0) + record(17, 0))
    with pytest.raises(DataError, match="the label 17 where CIFAR-10 has 0 to 9"):
        read([path])


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"gone\.bin cannot be read"):
        read([tmp_path / "gone.bin"])


def test_a_folder_without_a_test_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path))
    (folder := tmp_path / "cifar-10-batches-bin").mkdir()
    (folder / "data_batch_1.bin").write_bytes(record(0, 0))
    with pytest.raises(DataError, match="lacks data_batch"):
        located()


def test_the_archive_is_unpacked_once_into_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("INVARIANCE_CACHE", str(tmp_path / "cache"))
    (inside := tmp_path / "cifar-10-batches-bin").mkdir()
    (cache := tmp_path / "cache").mkdir()
    for name in ("data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"):
        (inside / name).write_bytes(record(3, 1))
    with tarfile.open(cache / "small.tar.gz", "w:gz") as packed:
        packed.add(inside, inside.name)
    sha256 = hashlib.sha256((cache / "small.tar.gz").read_bytes()).hexdigest()
    monkeypatch.setattr(cifar, "ARCHIVE", File("small.tar.gz", sha256))
    assert located() is None
    found = batches()
    assert [path.name for path in found.train] == ["data_batch_1.bin", "data_batch_2.bin"]
    assert found == located()
    assert read(found.test).classes.tolist() == [3]
    assert sorted(path.name for path in cache.iterdir()) == [FOLDER, f"{FOLDER}.lock", "small.tar.gz"]


def test_the_given_batches_hold_what_their_labels_say(given_folder):
    folder = given_folder("cifar-10-batches-bin")
    assert tuple((folder / "batches.meta.txt").read_text().split()) == NAMES
    found = batches()
    assert found.train == tuple(folder / f"data_batch_{i}.bin" for i in range(1, 6))
    train, test = read(found.train), read(found.test)
    assert len(train.classes) == sum(path.stat().st_size for path in found.train) // RECORD
    raw = found.test[0].read_bytes()
    last = raw[-RECORD:]
    assert test.classes[-1] == last[0]
    assert test.pixels[-1].numpy().tobytes() == last[1:]
    for records, each in ((train, 5000), (test, 1000)):
        assert (records.classes == 0).sum() == (records.classes == 2).sum() == each
