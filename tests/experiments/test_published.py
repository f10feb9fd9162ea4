"""Published runs: from a real store to a file and back."""

import json
import lzma
from dataclasses import replace
from functools import cache

import pytest

from invariance.core.errors import StoreError
from invariance.experiments.published import FILE, Published, publish, published_store, read
from invariance.experiments.run import Run, execute
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store

SMALL = {"data": {"samples": 100}, "recipe": {"epochs": 4, "batch_size": 50}, "evaluation": {"checkpoints": 2}}


@cache
def run(method: str = "irmv1", seed: int = 0, status: str = "finished") -> Run:
    return replace(execute(Spec.of("two-bit", method, "short", seed, SMALL)).run, status=status)


TRIALS = {run().spec.trial.key, run("erm").spec.trial.key}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "runs.db") as opened:
        yield opened


def test_a_published_run_is_read_back_as_the_store_had_it(store, tmp_path):
    for seed, status in enumerate(("finished", "collapsed", "diverged")):
        store.add(run(seed=seed, status=status))
    file = tmp_path / "published"
    assert publish(store, TRIALS, file) == Published(given=3, new=3, all=3)
    with published_store(file) as found:
        assert found.provenances() == store.provenances()
        for before, after in zip(store.records(), found.records(), strict=True):
            assert before.keys() == after.keys()
            assert all(before[name] == after[name] for name in ("key", "trial", "spec", "weights", "finished_at"))
            assert close(after, before)


def close(a, b) -> bool:
    """The same plain data, to nine digits."""
    match b:
        case float():
            return a == pytest.approx(b, rel=1e-8)
        case dict():
            return a.keys() == b.keys() and all(close(a[name], b[name]) for name in b)
        case list():
            return len(a) == len(b) and all(map(close, a, b))
        case _:
            return a == b


def test_what_decides_a_run_keeps_every_digit_so_that_its_key_can_be_computed_again(store, tmp_path):
    made = replace(run(), spec=Spec.of("two-bit", "irmv1", "short", 0, SMALL | {"method": {"gamma": 100 / 3}}))
    store.add(made)
    publish(store, {made.spec.trial.key}, tmp_path / "published")
    ((key, record),) = read(tmp_path / "published").items()
    assert Spec.from_json(record["spec"]).key == key == made.spec.key


def test_only_runs_of_the_trials_are_published_and_none_that_failed(store, tmp_path):
    for made in (run(), run("rex"), run("erm", status="failed")):
        store.add(made)
    publish(store, TRIALS, tmp_path / "published")
    assert read(tmp_path / "published").keys() == {run().spec.key}


def test_the_same_runs_give_the_same_bytes_in_whatever_order_they_came(store, tmp_path):
    runs = [run(), run("erm"), run(seed=1)]
    files = [tmp_path / name for name in ("first", "second", "again")]
    for made in runs:
        store.add(made)
    publish(store, TRIALS, files[0])
    with Store(tmp_path / "other.db") as other:
        other.restore(reversed(list(store.records())))
        publish(other, TRIALS, files[1])
    with published_store(files[0]) as published:
        publish(published, TRIALS, files[2])
    assert files[0].read_bytes() == files[1].read_bytes() == files[2].read_bytes()
    keys = [json.loads(line)["key"] for line in lzma.decompress(files[0].read_bytes()).splitlines()]
    assert keys == sorted(keys)


def test_published_runs_stay_unless_the_same_run_is_given_again(store, tmp_path):
    file = tmp_path / "published"
    store.add(run())
    publish(store, TRIALS, file)
    with Store(tmp_path / "other.db") as other:
        other.add(replace(run(), seconds=123.0))
        other.add(run("erm"))
        assert publish(other, TRIALS, file) == Published(given=2, new=1, all=2)
    found = read(file)
    assert found.keys() == {run().spec.key, run("erm").spec.key}
    assert found[run().spec.key]["seconds"] == 123.0


def test_runs_keep_their_keys_and_are_found_where_their_data_are_not(store, tmp_path, monkeypatch):
    (tmp_path / "PACS/photo/dog").mkdir(parents=True)
    (tmp_path / "PACS/photo/dog/1.jpg").touch()
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path))
    there = Spec.of("pacs", "irmv1", "short")
    store.add(replace(run(), spec=there))
    publish(store, {there.trial.key}, tmp_path / "published")
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path / "nothing"))
    here = Spec.of("pacs", "irmv1", "short")
    assert here.key != there.key
    with published_store(tmp_path / "published") as found:
        assert [summary.key for summary in found.summaries()] == [there.key]
        assert [len(runs) for runs in found.trials([here.trial.key]).values()] == [1]


def test_a_run_of_a_method_that_is_not_installed_is_listed_still(store, tmp_path):
    store.add(run())
    publish(store, TRIALS, tmp_path / "published")
    text = lzma.decompress((tmp_path / "published").read_bytes()).decode()
    (tmp_path / "published").write_bytes(lzma.compress(text.replace('"irmv1"', '"not-here"').encode()))
    with published_store(tmp_path / "published") as found:
        assert [summary.method for summary in found.summaries()] == ["not-here"]


@pytest.mark.parametrize("content", [b"", b"no archive", lzma.compress(b"no json"), lzma.compress(b'{"status": 1}')])
def test_another_file_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "published").write_bytes(content)
    with pytest.raises(StoreError, match=r"published holds no published runs \(.*\); take it from the repository"):
        read(tmp_path / "published")


def test_the_file_of_the_package_opens():
    with published_store() as found:
        assert found.done() == read(FILE).keys()
