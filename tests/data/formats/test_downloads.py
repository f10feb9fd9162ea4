import gc
import hashlib
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from invariance.core.errors import DataError
from invariance.data.formats.downloads import File, data_folder, data_folders, fetch, find, locate

CONTENT = bytes(range(256)) * 40
NAME = "some-set/file.gz"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FILE = File(NAME, SHA256)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """The package's folder below an empty cache; no other place is looked at."""
    monkeypatch.delenv("INVARIANCE_DATA", raising=False)
    monkeypatch.delenv("INVARIANCE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "*")
    return data_folders()[-1]


@pytest.fixture
def own(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path / "own"))
    return tmp_path / "own"


def put(folder: Path, content: bytes = CONTENT) -> Path:
    path = folder / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


class Mirrors(ThreadingHTTPServer):
    """Answers /right with the file, /wrong with other bytes, /half with a broken answer, all else with 404."""

    asked: list[str]

    def url(self, place: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{place}/file.gz"


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append(place := self.path.split("/")[1])
        body = {"right": CONTENT, "wrong": b"<html>moved</html>", "half": CONTENT[:100]}.get(place)
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(CONTENT if place == "half" else body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def mirrors() -> Iterator[Mirrors]:
    with Mirrors(("127.0.0.1", 0), Answer) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def one_line(caught: pytest.ExceptionInfo[DataError]) -> str:
    message = str(caught.value)
    assert "\n" not in message
    return message


# Where files are looked for


def test_the_cache_is_where_the_platform_has_it(cache, tmp_path):
    assert cache == tmp_path / "cache" / "invariance"


def test_the_folder_of_the_environment_variable_comes_first(own, cache):
    put(cache)
    assert locate(FILE) == cache / NAME
    put(own)
    assert locate(FILE) == own / NAME
    assert find(FILE) == own / NAME


def test_a_file_that_is_nowhere_is_not_located():
    assert locate(FILE) is None


def test_an_empty_environment_variable_is_none(monkeypatch, cache):
    monkeypatch.setenv("INVARIANCE_DATA", "")
    assert data_folders() == [cache]


# Verification


@pytest.mark.parametrize("place", ["own", "cache"])
@pytest.mark.parametrize(
    "damaged",
    [CONTENT[:777] + bytes([CONTENT[777] ^ 1]) + CONTENT[778:], CONTENT[:-1], b""],
    ids=["a byte flipped", "truncated", "empty"],
)
def test_a_damaged_file_is_refused_with_its_name_and_what_to_do(request, place, damaged):
    path = put(request.getfixturevalue(place), damaged)
    with pytest.raises(DataError) as caught:
        find(FILE)
    message = one_line(caught)
    assert str(path) in message
    assert "remove it" in message
    assert "invariance data fetch" in message


def test_a_file_that_is_damaged_later_is_noticed(cache):
    path = put(cache)
    assert locate(FILE) == path
    path.write_bytes(CONTENT[:-1] + b"!")
    with pytest.raises(DataError, match="not the published file"):
        locate(FILE)


def test_a_damaged_file_is_not_replaced_behind_the_users_back(cache, mirrors):
    path = put(cache, b"mine")
    with pytest.raises(DataError):
        find(File(NAME, SHA256, (mirrors.url("right"),)))
    assert path.read_bytes() == b"mine"
    assert not mirrors.asked


# Fetching


def test_the_second_mirror_is_asked_where_the_first_has_no_such_file(cache, mirrors):
    file = File(NAME, SHA256, (mirrors.url("gone"), mirrors.url("right"), mirrors.url("never")))
    assert find(file) == cache / NAME
    assert (cache / NAME).read_bytes() == CONTENT
    assert mirrors.asked == ["gone", "right"]
    assert locate(file) == cache / NAME


def test_a_file_that_is_here_is_not_fetched(cache, mirrors):
    put(cache)
    find(File(NAME, SHA256, (mirrors.url("right"),)))
    assert not mirrors.asked


@pytest.mark.parametrize("bad", ["wrong", "half"])
def test_wrong_bytes_are_refused_and_not_kept(cache, mirrors, bad):
    file = File(NAME, SHA256, (mirrors.url(bad),))
    with pytest.raises(DataError):
        find(file)
    assert mirrors.asked == [bad]
    assert not [path for path in cache.rglob("*") if path.is_file()]
    assert locate(file) is None


@pytest.mark.parametrize("bad", ["wrong", "half"])
def test_after_wrong_bytes_the_next_mirror_is_asked(cache, mirrors, bad):
    assert find(File(NAME, SHA256, (mirrors.url(bad), mirrors.url("right")))) == cache / NAME
    assert (cache / NAME).read_bytes() == CONTENT


def test_offline_says_which_file_to_put_where(cache):
    closed = "http://127.0.0.1:9/file.gz"
    with pytest.raises(DataError) as caught:
        find(File(NAME, SHA256, (closed, closed)))
    message = one_line(caught)
    assert f"put the file at {cache / NAME}" in message
    assert f"INVARIANCE_DATA to a folder that holds {NAME}" in message


def test_a_cache_that_cannot_be_written_is_not_blamed_on_the_sources(tmp_path, monkeypatch, mirrors):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DataError) as caught:
        find(File(NAME, SHA256, (mirrors.url("right"),)))
    message = one_line(caught)
    assert "answered" not in message
    assert "cannot write" in message
    assert str(data_folders()[-1]) in message


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX: limits of file sizes")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # pooch does not close its connection
def test_a_disk_that_is_full_half_way_keeps_no_part_of_a_file(cache, mirrors):
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(CONTENT) // 2, hard))
    try:
        with pytest.raises(DataError) as caught:
            find(File(NAME, SHA256, (mirrors.url("right"),)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert one_line(caught).startswith(f"cannot write {cache}")
    del caught
    gc.collect()
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_what_a_killed_download_left_is_gone_after_the_next(cache, mirrors):
    left = cache / f"{NAME}.part" / "tmp1234"
    left.parent.mkdir(parents=True)
    left.write_bytes(CONTENT[:100])
    assert find(File(NAME, SHA256, (mirrors.url("right"),))) == cache / NAME
    assert [path for path in cache.rglob("*") if path.is_file()] == [cache / NAME]


def test_progress_is_told_how_many_bytes_came(mirrors):
    class Meter:
        total, done, closed = 0, 0, False

        def update(self, size: int) -> None:
            self.done += size

        def reset(self) -> None:
            self.done = 0

        def close(self) -> None:
            self.closed = True

    meter = Meter()
    fetch(File(NAME, SHA256, (mirrors.url("right"),)), meter)
    assert meter.total == len(CONTENT)
    assert meter.done == len(CONTENT)
    assert meter.closed


def test_a_cache_of_ones_own_is_where_files_are_fetched_to(tmp_path, monkeypatch):
    monkeypatch.setenv("INVARIANCE_CACHE", str(tmp_path / "elsewhere"))
    assert data_folders() == [tmp_path / "elsewhere"]


def test_a_data_folder_is_found_in_the_own_place_first_and_named_if_it_is_nowhere(own, cache):
    with pytest.raises(DataError, match=f"there is no folder PACS in {own} or {cache}; put the data there"):
        data_folder("PACS")
    (cache / "PACS").mkdir(parents=True)
    assert data_folder("PACS") == cache / "PACS"
    (own / "PACS").mkdir(parents=True)
    assert data_folder("PACS") == own / "PACS"
