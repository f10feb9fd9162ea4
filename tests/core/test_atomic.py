"""What is written appears whole or not at all, and nothing else is left."""

from pathlib import Path

import pytest

from invariance.core.atomic import atomic_write, part_path


@pytest.mark.parametrize("sync", [False, True])
def test_a_file_appears_when_all_is_written(tmp_path, sync):
    path = tmp_path / "file.txt"
    with atomic_write(path, sync=sync) as part:
        part.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("sync", [False, True])
def test_a_folder_appears_with_all_its_files(tmp_path, sync):
    path = tmp_path / "folder"
    with atomic_write(path, sync=sync) as part:
        (part / "inside").mkdir(parents=True)
        (part / "inside" / "file").write_bytes(b"whole")
    assert (path / "inside" / "file").read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_after_an_error_the_earlier_file_stays_and_nothing_else_is_left(tmp_path, error):
    path = tmp_path / "file.txt"
    path.write_text("before")

    def fail() -> None:
        with atomic_write(path) as part:
            part.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_part_that_cannot_take_its_place_is_removed(tmp_path):
    (taken := tmp_path / "file").mkdir()
    with pytest.raises(OSError, match=r"file"), atomic_write(taken) as part:
        part.write_text("whole")
    assert list(tmp_path.iterdir()) == [taken]


def left_by_a_killed_process(path: Path, kind: str) -> None:
    if kind == "folder":
        part_path(path).mkdir()
        (part_path(path) / "half").write_text("half")
    else:
        part_path(path).write_text("half of something longer")


@pytest.mark.parametrize("left", ["file", "folder"])
@pytest.mark.parametrize("made", ["file", "folder"])
def test_what_a_killed_process_left_is_no_part_of_what_is_written_next(tmp_path, left, made):
    path = tmp_path / "target"
    left_by_a_killed_process(path, left)
    with atomic_write(path) as part:
        if made == "folder":
            part.mkdir()
        else:
            part.write_text("new")
    assert list(tmp_path.iterdir()) == [path]
    assert not list(path.iterdir()) if made == "folder" else path.read_text() == "new"
