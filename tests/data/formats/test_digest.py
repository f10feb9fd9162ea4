"""Keys of runs follow what files hold, and files are read once."""

import hashlib
import os
from pathlib import Path

import pytest

from invariance.core.errors import DataError
from invariance.core.one_look import once, one_look
from invariance.data.formats import digest as module
from invariance.data.formats.digest import digest

LONG_AGO_NS = 10**17


@pytest.fixture
def path(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("INVARIANCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "_known", {})
    (tmp_path / "a.bin").write_bytes(b"some bytes")
    return tmp_path / "a.bin"


@pytest.fixture
def settled(path, monkeypatch) -> Path:
    """A file that changed long ago."""
    monkeypatch.setattr(module, "SETTLED_NS", -LONG_AGO_NS)
    return path


def test_the_hash_is_that_of_the_bytes_wherever_they_lie(path):
    other = path.rename(path.with_name("b.bin"))
    expected = hashlib.sha256(hashlib.sha256(b"some bytes").digest()).hexdigest()
    assert digest([other]) == expected


def test_a_file_that_was_replaced_in_place_is_noticed_though_size_and_times_are_the_same(settled):
    before, stat = digest([settled]), settled.stat()
    settled.write_bytes(b"same bytes")
    os.utime(settled, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    while settled.stat().st_ctime_ns == stat.st_ctime_ns:  # within one tick of the clock only age tells, as below
        settled.touch()
    assert digest([settled]) != before


def test_a_file_that_has_just_changed_is_not_trusted(path, monkeypatch):
    monkeypatch.setattr(module, "SETTLED_NS", 100 * LONG_AGO_NS)
    digest([path])
    assert module._known == module._kept([str(path)]) == {}


def test_a_file_that_stays_as_it_is_is_read_once_by_all_processes(settled, monkeypatch):
    before = digest([settled])
    monkeypatch.setattr(module, "_hashed", lambda path: pytest.fail("it was read again"))
    assert digest([settled]) == before
    module._known.clear()  # as in another process
    assert digest([settled]) == before


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\x00" + bytes(200)])
def test_a_damaged_or_unwritable_cache_costs_time_and_nothing_else(settled, content):
    (cache := settled.parent / "cache").mkdir()
    (cache / "digests.db").write_bytes(content)
    expected = digest([settled])
    module._known.clear()
    assert digest([settled]) == expected


def test_a_file_that_is_not_there_is_named(path):
    with pytest.raises(DataError, match="nothing"):
        digest([path.with_name("nothing")])


def test_one_look_is_kept_and_the_next_is_another():
    numbers = iter(range(9))
    with one_look():
        assert [once("a", lambda: next(numbers)), once("a", lambda: next(numbers))] == [0, 0]
        assert once("b", lambda: next(numbers)) == 1
    assert [once("a", lambda: next(numbers)), once("a", lambda: next(numbers))] == [2, 3]
