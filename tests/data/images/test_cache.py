"""Images that are made once: by whom, how often, and what happens when it goes wrong."""

import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from invariance.core.errors import DataError
from invariance.data.images.cache import cached

SHAPE = (1, 2, 2)
BUILDER = """
import sys, time, numpy as np
from pathlib import Path
from invariance.data.images.cache import cached

def make(item):
    time.sleep(float(sys.argv[2]))  # an hour: until it is killed
    with Path(sys.argv[1]).open("a") as made:
        made.write(f"{item}\\n")
    return np.full((1, 2, 2), item, np.uint8)

print(int(cached(range(20), (1, 2, 2), make, title="numbers", key="k").images.sum()))
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    """Where caches are kept."""
    monkeypatch.setenv("INVARIANCE_CACHE", str(tmp_path))
    return tmp_path / "images"


class Maker:
    """An image full of the item's number; counts how often it is asked."""

    def __init__(self) -> None:
        self.made: list[int] = []

    def __call__(self, item: int) -> np.ndarray:
        self.made.append(item)
        if item == 13:
            raise OSError("image file is truncated")
        return np.full(SHAPE, item, np.uint8)


def test_images_are_made_once_in_the_order_of_their_items(place):
    make, items = Maker(), [5, 3, 9, 3]
    for _ in range(2):
        images, broken = cached(items, SHAPE, make, title="some", key="k")
        assert images.shape == (4, *SHAPE)
        assert images[:, 0, 0, 0].tolist() == items
        assert broken == {}
    assert sorted(make.made) == sorted(items)
    assert [path.name for path in place.iterdir() if path.is_dir()] == [images.filename.parent.name]
    assert not images.flags.writeable


def test_more_items_than_are_made_at_once_keep_their_order(monkeypatch):
    monkeypatch.setattr("invariance.data.images.cache.BUFFER_BYTES", 40)
    items = [i % 7 for i in range(95)]
    assert cached(items, SHAPE, Maker(), title="many", key="k").images[:, 0, 0, 0].tolist() == items


@pytest.mark.parametrize("other", [{"key": "other"}, {"shape": (1, 2, 3)}, {"items": [1, 2]}])
def test_whatever_decides_the_images_decides_the_cache(other):
    def make(item: int) -> np.ndarray:
        calls.append(item)
        return np.zeros(asked["shape"], np.uint8)

    calls: list[int] = []
    asked = {"items": [1], "shape": SHAPE, "key": "k"}
    for change in ({}, other):
        asked |= change
        cached(asked["items"], asked["shape"], make, title="some", key=asked["key"])
    assert len(calls) == 1 + len(asked["items"])


def test_a_broken_item_is_named_and_refused_or_left_to_the_caller_and_nothing_is_made_again(caplog):
    make = Maker()
    with pytest.raises(DataError, match=r"1 of 3 images of faces .* the first is 13 \(OSError: image file is trunc"):
        cached([12, 13, 14], SHAPE, make, title="faces", key="k")
    assert not caplog.records
    images, broken = cached([12, 13, 14], SHAPE, make, title="faces", key="k", broken="skip")
    assert broken == {1: "OSError: image file is truncated"}
    assert images[:, 0, 0, 0].tolist() == [12, 0, 14]
    assert len(make.made) == 3
    (said,) = caplog.records
    assert said.levelno == logging.WARNING
    assert said.getMessage().endswith("left out: 13")


def test_an_image_of_another_shape_or_type_is_broken():
    wrong = {0: np.zeros((3, 2, 2), np.uint8), 1: np.zeros(SHAPE, np.float32)}
    broken = cached([0, 1], SHAPE, wrong.__getitem__, title="wrong", key="k", broken="skip").broken
    assert broken == {0: "uint8 of shape (3, 2, 2), not (1, 2, 2)", 1: "float32 of shape (1, 2, 2), not (1, 2, 2)"}


@pytest.mark.parametrize(
    ("name", "rest"),
    [
        ("images.npy", lambda content: content[:-1]),
        ("broken.json", lambda content: content[:-1]),
        ("broken.json", lambda _: b"[]"),
    ],
)
def test_a_damaged_cache_is_made_anew(name, rest):
    make = Maker()
    images = cached([1, 2], SHAPE, make, title="some", key="k").images
    path = images.filename.with_name(name)
    path.write_bytes(rest(path.read_bytes()))
    assert cached([1, 2], SHAPE, make, title="some", key="k").images[:, 0, 0, 0].tolist() == [1, 2]
    assert len(make.made) == 4


def start(log: Path, seconds: float) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", BUILDER, str(log), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_at_once_make_every_image_once(tmp_path):
    log = tmp_path / "made"
    both = [start(log, 0.005) for _ in range(2)]
    assert [process.communicate()[0].strip() for process in both] == [str(4 * sum(range(20)))] * 2
    assert sorted(map(int, log.read_text().split())) == list(range(20))


def test_what_a_killed_process_left_is_no_cache_and_stops_nobody(tmp_path, place):
    killed = start(tmp_path / "made", 3600)
    while not list(place.glob("*.part/images.npy")):
        assert killed.poll() is None
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    again = start(tmp_path / "again", 0)
    assert again.communicate()[0].strip() == str(4 * sum(range(20)))
    assert len((tmp_path / "again").read_text().split()) == 20
    assert not list(place.glob("*.part"))


@pytest.mark.parametrize("wrong", ["a file", "no room"])
def test_a_cache_that_cannot_be_written_is_said_in_one_line(place, monkeypatch, wrong):
    if wrong == "a file":
        place.write_text("")
    else:
        monkeypatch.setenv("INVARIANCE_CACHE", "/proc/nowhere")
    with pytest.raises(DataError, match=r"cannot keep images in .*; free some space there, or set INVARIANCE_CACHE"):
        cached([1], SHAPE, Maker(), title="some", key="k")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_said_in_one_line_and_leaves_no_cache(place, monkeypatch):
    cached([1], SHAPE, Maker(), title="some", key="k")
    shutil.rmtree(place)
    made = Path.mkdir

    def full(path: Path, *arguments: object, **options: object) -> None:
        made(path, *arguments, **options)
        if path.suffix == ".part":
            (path / "images.npy").symlink_to("/dev/full")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(DataError, match=r"cannot keep images in .*No space left on device"):
        cached([1], SHAPE, Maker(), title="some", key="k")
    assert not [path for path in place.iterdir() if path.is_dir() and path.suffix != ".part"]
