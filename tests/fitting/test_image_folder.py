"""Images as they lie in folders; the commands that read them are in e2e/test_folders.py."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from invariance.core.errors import BadValue, DataError
from invariance.fitting import image_folder
from invariance.fitting.image_folder import ImageFolderReader, image_folder_task


@pytest.fixture
def folder(tmp_path) -> Path:
    """Seven images of two domains, and a file that is none."""
    for i, name in enumerate(["a/cat/1", "a/cat/2", "a/dog/1", "b/cat/1", "b/cat/2", "b/dog/1", "b/dog/2"]):
        path = tmp_path / "photos" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 30), (30 * i, 0, 0)).save(path)
    (tmp_path / "photos" / "a" / "cat" / "notes.txt").write_text("nothing to see")
    return tmp_path / "photos"


def test_images_come_some_at_a_time_whatever_is_left_out(folder, monkeypatch):
    monkeypatch.setattr(image_folder, "BATCH_IMAGES", 3)
    notes: list[str] = []
    batches = list(ImageFolderReader(8, "skip").batches(folder, notes))
    assert [len(x) for x, _ in batches] == [2, 3, 2]
    assert [name for _, kept in batches for name in kept["file"].to_pylist()] == sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*.png")
    )
    reds = np.concatenate([x.tensor()[:, 0, 4, 4] for x, _ in batches])
    assert reds.tolist() == [0, 30, 60, 90, 120, 150, 180]
    assert notes == ["left out as not readable: a/cat/notes.txt"]


def test_what_is_scored_is_what_is_learned_from(folder, monkeypatch):
    monkeypatch.setattr(image_folder, "BATCH_IMAGES", 3)
    reader, notes = ImageFolderReader(8, "skip"), list[str]()
    rows = reader.read(folder)
    pieces = list(reader.labelled(folder, None, notes))
    assert np.concatenate([piece.y for piece in pieces]).tolist() == rows.y.tolist()
    environments = [name for piece in pieces for name in piece.environments.tolist()]
    assert environments == rows.environments.tolist() == ["a"] * 3 + ["b"] * 4
    assert tuple(notes) == rows.notes
    assert np.array_equal(np.concatenate([piece.x.tensor() for piece in pieces]), rows.x.tensor())


def test_a_file_without_an_image_is_refused_unless_it_is_to_be_skipped(folder):
    for read in (lambda: ImageFolderReader(8).read(folder), lambda: list(ImageFolderReader(8).batches(folder, []))):
        with pytest.raises(DataError, match=r"notes\.txt holds no readable image .*--broken skip"):
            read()
    for path in folder.rglob("*.png"):
        path.write_text("")
    with pytest.raises(DataError, match="the first of 8 such files"):
        ImageFolderReader(8, "skip").read(folder)


def test_few_images_are_looked_at_more_often(folder):
    how = {"test": None, "width": 8, "seed": 0}
    (few,) = [image_folder_task(folder, ImageFolderReader(8, "skip"), epochs=None, **how).estimator.recipe]
    assert few.epochs == image_folder.MIN_UPDATES
    assert image_folder._recipe(96_000, 64, None).epochs == image_folder.MIN_EPOCHS
    assert image_folder_task(folder, ImageFolderReader(8, "skip"), epochs=3, **how).estimator.recipe.epochs == 3


def test_a_reader_comes_back_from_plain_data(folder):
    assert ImageFolderReader.from_json(ImageFolderReader(32, "skip").to_json()) == ImageFolderReader(32, "skip")
    with pytest.raises(BadValue, match="image_size"):
        ImageFolderReader.from_json({"image_size": -1})
