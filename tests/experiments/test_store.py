"""A real SQLite file: what is in it stays, whoever writes, dies, or fills the disk."""

import json
import math
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from invariance.core.errors import BadValue, InvarianceError, StoreError, UnknownName
from invariance.core.provenance import provenance
from invariance.evaluation.scores import Scores
from invariance.experiments.database import APPLICATION, SCHEMA
from invariance.experiments.run import Run, execute
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store, Summary, work_folder


@cache
def made(method: str) -> Run:
    """A real run."""
    changes = {"data": {"samples": 100}, "recipe": {"epochs": 4, "batch_size": 50}, "evaluation": {"landscape": 2}}
    return execute(Spec.of("two-bit", method, "short", changes=changes)).run


def run(method: str = "irmv1", seed: int = 0, hold_out: str | None = None, **fields) -> Run:
    """The same under another seed."""
    whole = made(method)
    return replace(whole, spec=replace(whole.spec, seed=seed, hold_out=hold_out), **fields)


def failed(seed: int = 0, reason: str = "it broke") -> Run:
    return Run(run(seed=seed).spec, "failed", (), 1.0, reason)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def store(path):
    opened = Store(path)
    yield opened
    opened.close()


def one_line(caught: pytest.ExceptionInfo[InvarianceError]) -> str:
    assert "\n" not in str(caught.value)
    return str(caught.value)


# There and back


@pytest.mark.parametrize("method", ["irmv1", "erm", "sparse-irm"])
def test_a_run_comes_back_as_it_was(store, method):
    store.add(run(method))
    assert store.get(run(method).spec.key) == run(method)
    assert store.find(run(method).spec.key[:12]) == run(method).spec.key


def test_a_record_of_an_earlier_version_opens_and_is_written_by_the_same_names(store, path):
    record = (Path(__file__).parent / "record.json").read_text(encoding="utf-8").strip()
    store.add(run())
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE records SET record = ?", (record,))
    connection.close()
    found = store.get(run().spec.key)
    assert found.history[0].diagnostics.logit_scale == 0.18384070694446564
    assert found.history[0].homogeneity == 0.954687179756925
    assert json.dumps(found.to_json()) == record


def test_numbers_that_are_not_finite_come_back(store):
    last = replace(run().history[-1], loss=math.nan, test=Scores({"β=0.1": math.nan, "β=0.9": math.inf}))
    odd = run(history=(last,), landscape=((math.inf, math.nan),))
    store.add(odd)
    assert repr(store.get(odd.spec.key)) == repr(odd)
    assert store.summaries()[0].average is None


def test_runs_outlive_the_store_that_wrote_them(store, path):
    store.add(run())
    store.close()
    again = Store(path, must_exist=True)
    assert again.get(run().spec.key) == run()
    again.close()


def test_what_is_not_there_is_none(store):
    assert store.get("0" * 24) is None
    assert not store.has("0" * 24)
    assert store.done() == set()
    assert store.summaries() == store.groups() == store.provenances() == []


def test_a_summary_holds_what_is_listed(store):
    store.add(run(seed=7, hold_out="β=0.1"))
    (summary,) = store.summaries()
    whole = run(seed=7, hold_out="β=0.1")
    test = whole.history[-1].test
    assert summary == Summary(
        *(whole.spec.key, whole.spec.trial.key, "two-bit", "irmv1", "short", 7, "β=0.1"),
        *(whole.status, whole.reason, whole.seconds, test.mean, test.worst, test.gap, summary.finished_at),
    )
    assert summary.finished_at.startswith("20")


def test_summaries_are_filtered_by_any_column(store):
    for own in (run(seed=1), run(seed=2), run("erm", seed=1), failed(3)):
        store.add(own)
    assert len(store.summaries()) == len(store.summaries(method=None)) == 4
    assert {s.seed for s in store.summaries(method="irmv1", status=run().status)} == {1, 2}
    assert [s.seed for s in store.summaries(status="failed")] == [3]
    assert len(store.summaries(seed=1)) == 2
    assert store.summaries(key=run(seed=2).spec.key)[0].seed == 2
    assert len(list(store.records(seed=1))) == 2


def test_an_unknown_column_says_what_was_meant(store):
    with pytest.raises(UnknownName) as caught:
        store.summaries(methud="erm")
    assert one_line(caught) == "no column of a run is called 'methud'. Did you mean 'method'?"


def test_records_hold_everything(store):
    store.add(run())
    (record,) = store.records()
    assert Run.from_json(json.loads(json.dumps(record))) == run()
    assert record["versions"] == provenance()["versions"]
    assert record["key"] == run().spec.key


def test_the_seeds_of_a_trial_are_one_group_and_only_finished_ones_are_averaged(store):
    first, second = (run(seed=seed, status="finished") for seed in (1, 2))
    lower = replace(second.history[-1], test=Scores({"β=0.1": 0.4, "β=0.9": 0.2}))
    second = replace(second, history=(lower,), seconds=5.0)
    held_out = run(seed=2, hold_out="β=0.1")
    for own in (first, second, failed(3), run(seed=4, status="collapsed"), held_out, run("erm")):
        store.add(own)
    erm, irmv1 = store.groups()
    assert (erm.method, erm.runs) == ("erm", 1)
    assert (irmv1.trial, irmv1.method, irmv1.runs, irmv1.finished) == (first.spec.trial.key, "irmv1", 4, 2)
    assert irmv1.average == pytest.approx((first.history[-1].test.mean + 0.3) / 2)
    assert irmv1.worst == pytest.approx((first.history[-1].test.worst + 0.2) / 2)
    assert irmv1.seconds == pytest.approx(2 * run().seconds + 5 + 1)


def test_trials_hold_every_seed_and_every_held_out_environment(store):
    runs = [run(seed=2), run(seed=1), run(seed=1, hold_out="β=0.1")]
    for own in (*runs, run("erm")):
        store.add(own)
    trial = run().spec.trial.key
    found = store.trials([trial, "nothing"])
    assert found["nothing"] == []
    assert [own.spec.seed for own in found[trial]] == [1, 1, 2]
    assert {own.spec.key for own in found[trial]} == {own.spec.key for own in runs}


def test_runs_of_one_machine_and_version_share_a_manifest(store):
    for seed in range(3):
        store.add(run(seed=seed))
    assert store.provenances() == [(provenance(), 3)]


def test_a_run_is_found_by_the_beginning_of_its_key(store):
    keys = sorted(run(seed=seed).spec.key for seed in range(40))
    for seed in range(40):
        store.add(run(seed=seed))
    assert store.find(keys[0][:8]) == keys[0]
    shared = next(a[0] for a, b in pairwise(keys) if a[0] == b[0])
    with pytest.raises(BadValue) as caught:
        store.find(shared)
    assert one_line(caught) == f"several runs have keys that start with {shared!r}; give more of it"
    for start in ("", "xyz", "%", keys[0] + "0"):
        with pytest.raises(UnknownName) as caught:
            store.find(start)
        assert repr(start) in one_line(caught)


def test_removed_runs_are_gone_with_their_records(store):
    for seed in range(3):
        store.add(run(seed=seed))
    gone = run(seed=1).spec.key
    assert store.remove([gone, "nothing"]) == 1
    assert store.get(gone) is None
    assert {s.seed for s in store.summaries()} == {0, 2}
    assert store.connection.execute("SELECT count(*) FROM records").fetchone() == (2,)


# What is there stays


@pytest.mark.parametrize("status", ["finished", "collapsed", "diverged"])
def test_a_result_is_never_overwritten(store, status):
    first = run(status=status)
    store.add(first)
    for later in (run(status="finished", seconds=9.0), failed(), run(status="diverged", weights="other", history=())):
        store.add(later)
        assert store.get(first.spec.key) == first
    assert len(store.summaries()) == 1
    assert store.done() == {first.spec.key}


def test_a_failure_gives_way_to_whatever_comes_next(store):
    key = run().spec.key
    for own in (failed(reason="first"), failed(reason="second")):
        store.add(own)
        assert store.get(key) == own
        assert not store.has(key)
        assert store.done() == set()
    store.add(run())
    assert store.get(key) == run()
    assert store.has(key)
    assert len(store.summaries()) == 1


def test_a_run_is_written_in_one_transaction(store):
    """An error half-way leaves nothing of it: here the table of records is gone."""
    store.add(run(seed=1))
    store.add(failed(2))
    store.connection.execute("ALTER TABLE records RENAME TO elsewhere")
    for seed in (2, 3):
        with pytest.raises(StoreError) as caught:
            store.add(run(seed=seed))
        assert "no such table" in one_line(caught)
    assert {(s.seed, s.status) for s in store.summaries()} == {(1, run().status), (2, "failed")}
    store.connection.execute("ALTER TABLE elsewhere RENAME TO records")
    store.add(run(seed=3))
    assert store.get(run(seed=3).spec.key) == run(seed=3)


# Many processes

PROCESSES = """
import json, os, random, signal, sys, time
from dataclasses import replace
from pathlib import Path
from invariance.core.provenance import provenance
from invariance.experiments.run import Run
from invariance.experiments.store import Store

task, folder = sys.argv[1], Path(sys.argv[2])
base = Run.from_json(json.loads(Path(sys.argv[3]).read_text()))
runs = [replace(base, spec=replace(base.spec, seed=seed)) for seed in range(400)]
for own in runs:
    own.spec.key  # worked out once, as is this:
provenance()


def fork(work, *arguments):
    pid = os.fork()
    if pid:
        return pid
    try:
        work(*arguments)
        os._exit(0)
    except BaseException as error:
        print(type(error).__name__, error, file=sys.stderr, flush=True)
        os._exit(1)


def crowd(path, start, process):
    os.read(start, 1)  # all at once
    store = Store(path)
    for own in runs[process * 5 : process * 5 + 5] + runs[40:44]:
        store.add(replace(own, seconds=float(process)))
    store.close()


def create():
    for i in range(4):
        start, go = os.pipe()
        pids = [fork(crowd, folder / f"{i}.db", start, process) for process in range(8)]
        os.write(go, b"!" * 8)
        codes = [os.waitpid(pid, 0)[1] for pid in pids]
        assert codes == [0] * 8, codes
        os.close(start), os.close(go)


def write(report):
    store = Store(folder / "killed.db")
    for own in runs:
        if not store.has(own.spec.key):
            store.add(own)
            os.write(report, f"{own.spec.seed}\\n".encode())


def kill():
    moments = random.Random(0)
    for _ in range(20):
        hear, report = os.pipe()
        pid = fork(write, report)
        os.close(report)
        with os.fdopen(hear) as added:
            for _ in range(moments.randint(1, 12)):
                print(added.readline(), end="")
            time.sleep(moments.uniform(0, 0.005))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            print(added.read(), end="")


{"create": create, "kill": kill}[task]()
"""


def processes(task: str, tmp_path: Path) -> str:
    """Many processes on one store at once; they are forked, so that torch is imported only once."""
    (base := tmp_path / "base.json").write_text(json.dumps(run().to_json()))
    command = [sys.executable, "-c", PROCESSES, task, str(tmp_path), str(base)]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def whole(store: Store) -> list[Summary]:
    """All runs, after a look at every one of them and at the file itself."""
    assert store.connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert store.connection.execute("PRAGMA foreign_key_check").fetchall() == []
    found = store.summaries()
    for summary in found:
        assert store.get(summary.key).spec.seed == summary.seed
    (records,) = store.connection.execute("SELECT count(*) FROM records").fetchone()
    assert records == len(found) == len({summary.key for summary in found})
    return found


def test_eight_processes_make_one_store_at_the_same_moment_and_lose_nothing(tmp_path):
    processes("create", tmp_path)
    for i in range(4):
        store = Store(tmp_path / f"{i}.db", must_exist=True)
        found = whole(store)
        assert sorted(s.seed for s in found) == list(range(44))
        assert all(s.seconds == s.seed // 5 for s in found if s.seed < 40)
        store.close()


def test_what_a_process_had_added_when_it_was_killed_is_there_and_nothing_by_halves(tmp_path):
    told = [int(seed) for seed in processes("kill", tmp_path).split()]
    assert len(told) >= 20
    assert len(told) == len(set(told))
    store = Store(tmp_path / "killed.db", must_exist=True)
    assert set(told) <= {s.seed for s in whole(store)}
    store.close()


# A disk that fills up


def fill(store: Store, fields: Callable[[int], dict]) -> tuple[int, str]:
    """Add runs until the disk is full; how many fitted, and what was said then."""
    for seed in range(1000):
        try:
            store.add(run(seed=seed, **fields(seed)))
        except StoreError as error:
            return seed, str(error)
    raise AssertionError("the disk is too large")


def test_a_full_disk_is_one_line_and_loses_nothing(small_disk):
    (ballast := small_disk / "ballast").write_bytes(b"x" * 60_000)
    path = small_disk / "runs.db"
    store = Store(path)
    fitted, message = fill(store, lambda seed: {"reason": "why " * 500})
    assert fitted > 1
    assert "\n" not in message
    assert message.startswith(f"{path}: database or disk is full; nothing in it was changed. Free some space")
    assert sorted(s.seed for s in whole(store)) == list(range(fitted))
    store.close()
    again = Store(path, must_exist=True)
    assert sorted(s.seed for s in whole(again)) == list(range(fitted))
    ballast.unlink()
    again.add(run(seed=fitted))
    assert again.get(run(seed=fitted).spec.key) == run(seed=fitted)
    again.close()


def test_a_store_that_does_not_fit_on_the_disk_is_one_line(small_disk):
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "ballast").write_bytes(b"x" * 400_000)
    with pytest.raises(StoreError) as caught:
        Store(small_disk / "runs.db")
    assert one_line(caught).startswith(f"{small_disk / 'runs.db'}: ")


# Files that are no store, or not ours


def database(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def a_store(path: Path, runs: int = 30) -> None:
    store = Store(path)
    for seed in range(runs):
        store.add(run(seed=seed))
    store.close()


def rewritten(*statements: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        a_store(path, 1)
        database(path, *statements)

    return make


def truncated(size: float) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        a_store(path)
        os.truncate(path, int(size if size > 1 else size * path.stat().st_size))

    return make


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a folder": (Path.mkdir, "unable to open database file"),
    "text": (lambda path: path.write_text("method,accuracy\nirmv1,0.7\n" * 100), "file is not a database"),
    "ten bytes": (lambda path: path.write_bytes(b"0123456789"), "file is not a database"),
    "random bytes": (lambda path: path.write_bytes(random.Random(0).randbytes(100_000)), "file is not a database"),
    "half a header": (truncated(60), "database disk image is malformed"),
    "a header alone": (truncated(100), "database disk image is malformed"),
    "another program's": (
        lambda path: database(path, "CREATE TABLE runs (key TEXT)"),
        "is a database of another program; choose another file with --store",
    ),
    "another program's, marked": (
        lambda path: database(path, "PRAGMA application_id = 77", "CREATE TABLE a (b)"),
        "is a database of another program; choose another file with --store",
    ),
    "an older one": (
        rewritten("PRAGMA user_version = 0"),
        f"was written by an older version of invariance (schema 0, this one reads {SCHEMA})",
    ),
    "a newer one": (
        rewritten(f"PRAGMA user_version = {SCHEMA + 1}", "ALTER TABLE runs ADD COLUMN more TEXT"),
        f"was written by a newer version of invariance (schema {SCHEMA + 1}, this one reads {SCHEMA})",
    ),
}


def content(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else str(sorted(path.iterdir()))


@pytest.mark.parametrize("what", REFUSED)
def test_a_file_that_is_no_store_of_this_version_is_refused_in_one_line_and_left_alone(path, what):
    make, reason = REFUSED[what]
    make(path)
    before = content(path)
    with pytest.raises(StoreError) as caught:
        Store(path)
    message = one_line(caught)
    assert message.startswith(str(path))
    assert reason in message
    assert "--store" in message
    assert content(path) == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("what", REFUSED)
def test_a_file_that_was_refused_is_let_go_of(path, what):
    REFUSED[what][0](path)
    with pytest.raises(StoreError) as caught:
        Store(path)
    assert caught.tb  # and with it whatever the store held
    held = [str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    assert not [name for name in held if name.startswith(str(path))]


@pytest.mark.parametrize("size", [0.3, 0.9])
def test_a_truncated_store_is_one_line_and_left_alone(path, size):
    truncated(size)(path)
    before = content(path)

    def use() -> None:
        store = Store(path)
        try:
            store.summaries()
            list(store.records())
            store.add(run(seed=1000))
        finally:
            store.close()

    with pytest.raises(StoreError) as caught:
        use()
    assert one_line(caught).startswith(f"{path}: database disk image is malformed")
    assert content(path) == before


def test_an_empty_file_becomes_a_store(path):
    path.touch()
    a_store(path, 1)
    assert sqlite3.connect(path).execute("PRAGMA application_id").fetchone() == (APPLICATION,)


def test_a_store_that_must_exist_is_not_made(path):
    with pytest.raises(StoreError) as caught:
        Store(path, must_exist=True)
    assert one_line(caught).startswith(f"there is no store {path}; ")
    assert not path.exists()


def test_a_store_in_a_folder_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(StoreError) as caught:
        Store(tmp_path / "nowhere" / "runs.db")
    assert one_line(caught).startswith(f"{tmp_path / 'nowhere' / 'runs.db'}: unable to open database file; ")


RECORDS = {
    "unknown field of a spec": lambda plain: plain["spec"].update(sead=3),
    "unknown field of a method": lambda plain: plain["spec"]["objective"].update(gama=3),
    "unknown method": lambda plain: plain["spec"]["objective"].update(name="irmv7"),
    "missing field": lambda plain: plain["spec"].pop("evaluation"),
    "wrong value": lambda plain: plain["spec"]["recipe"].update(lr=-1),
    "spec is text": lambda plain: plain.update(spec="erm"),
    "history is wrong": lambda plain: plain.update(history=[{"step": "x"}]),
    "no history": lambda plain: plain.pop("history"),
}


@pytest.mark.parametrize("what", RECORDS)
def test_a_run_that_cannot_be_read_is_one_line_that_names_the_store_and_the_others_are_read(store, path, what):
    store.add(run(seed=1))
    store.add(run(seed=2))
    plain = run(seed=1).to_json()
    RECORDS[what](plain)
    key = run(seed=1).spec.key
    store.connection.execute("UPDATE records SET record = ? WHERE key = ?", (json.dumps(plain), key))
    for read in (lambda: store.get(key), lambda: store.trials([run().spec.trial.key])):
        with pytest.raises(InvarianceError) as caught:
            read()
        assert one_line(caught).startswith(f"{path} holds a run that ")
    assert len(store.summaries()) == 2
    assert store.get(run(seed=2).spec.key) == run(seed=2)


@pytest.mark.parametrize("logged", [False, True])
def test_a_store_on_a_read_only_disk_is_read_and_nothing_is_written_beside_it(tmp_path, logged):
    (disk := tmp_path / "disk").mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a file system cannot be mounted here ({mounted.stderr.decode().strip()})")
    try:
        writer = Store(disk / "runs.db")
        writer.add(run())
        if logged:  # what a killed process leaves
            for name in ("runs.db", "runs.db-wal"):
                shutil.copy(disk / name, disk / f"copy-of-{name}".replace("copy-of-runs", "copy"))
        writer.close()
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        before = sorted(disk.iterdir())
        with Store(disk / ("copy.db" if logged else "runs.db"), must_exist=True) as store:
            assert [summary.key for summary in store.summaries()] == [run().spec.key]
            assert len(list(store.records())) == 1
        assert sorted(disk.iterdir()) == before
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_record_that_is_no_json_is_one_line(store, path):
    store.add(run())
    store.connection.execute("UPDATE records SET record = 'x'")
    with pytest.raises(StoreError) as caught:
        store.get(run().spec.key)
    assert one_line(caught).startswith(f"{path} holds a run that cannot be read")


def test_work_is_kept_beside_the_store(tmp_path):
    assert work_folder(tmp_path / "runs.db") == tmp_path / "runs.db-work"


# Many runs

LARGE, SMALL = 20_000, 2_000


def crowded(path: Path, count: int) -> Store:
    """A store of so many runs, 20 seeds a trial. One in fifty has the record of a real run, the others a short one."""
    store = Store(path)
    store.add(run())
    (row,) = store.connection.execute("SELECT * FROM runs").fetchall()
    record = json.dumps(run().to_json())
    names = ("two-bit", "colored-digits", "colored-mnist"), ("erm", "irmv1", "rex", "birm"), ("short", "full-batch")
    draw = random.Random(0)
    keys = [f"{draw.getrandbits(96):024x}" for _ in range(count)]
    trials = [sha256(str(i).encode()).hexdigest()[:24] for i in range(count // 20)]
    data, method, recipe = names
    rows = [
        (keys[i], trials[i // 20], data[i // 20 % 3], method[i // 60 % 4], recipe[i // 240 % 2], i % 20, *row[6:])
        for i in range(count)
    ]
    with store.connection as connection:
        connection.execute("BEGIN")
        connection.executemany(f"INSERT INTO runs VALUES ({','.join('?' * len(row))})", rows)
        texts = ((key, record if i % 50 == 0 else "{}") for i, key in enumerate(keys))
        connection.executemany("INSERT INTO records VALUES (?, ?)", texts)
    return store


@pytest.fixture(scope="module")
def stores(tmp_path_factory) -> tuple[Store, Store]:
    folder = tmp_path_factory.mktemp("crowded")
    opened = crowded(folder / "small.db", SMALL), crowded(folder / "large.db", LARGE)
    yield opened
    for store in opened:
        store.close()


def plans(store: Store, use: Callable[[Store], object]) -> list[str]:
    """How SQLite goes about every statement of ``use``."""
    statements: list[str] = []
    store.connection.set_trace_callback(statements.append)
    use(store)
    store.connection.set_trace_callback(None)
    return [row[3] for sql in statements for row in store.connection.execute(f"EXPLAIN QUERY PLAN {sql}")]


def work(store: Store, use: Callable[[Store], object]) -> int:
    """Hundreds of SQLite's instructions that ``use`` takes: a cost that no other process changes."""
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1

    store.connection.set_progress_handler(tick, 100)
    use(store)
    store.connection.set_progress_handler(None, 0)
    return count


def test_listing_costs_ten_times_as_much_for_ten_times_as_many_runs(stores):
    small, large = stores
    assert len(large.summaries()) == LARGE + 1
    assert len(large.groups()) == LARGE // 20 + 1
    for listing in (Store.summaries, Store.groups, Store.done):
        assert work(large, listing) < 15 * work(small, listing)


def test_listing_does_not_touch_the_records(stores):
    _, large = stores
    for listing in (Store.summaries, Store.groups, Store.done, Store.provenances):
        assert not [plan for plan in plans(large, listing) if "records" in plan]


@pytest.mark.parametrize(
    ("use", "index"),
    [
        (lambda store: store.summaries(data="two-bit", method="erm"), "runs_by_kind"),
        (lambda store: store.summaries(data="two-bit", method="erm", recipe="short", seed=3), "runs_by_kind"),
        (lambda store: store.summaries(trial="x"), "runs_by_trial"),
        (lambda store: store.trials(["x"]), "runs_by_trial"),
        (lambda store: store.groups(), "runs_by_trial"),
        (lambda store: store.has("x"), "autoindex_runs_1"),
        (lambda store: store.get("x"), "autoindex_records_1"),
        (lambda store: store.summaries(key="x"), "autoindex_runs_1"),
        (lambda store: store.find(run().spec.key[:12]), "autoindex_runs_1"),
    ],
    ids=["kind", "cell", "trial", "trials", "groups", "has", "get", "key", "find"],
)
def test_questions_about_some_runs_go_through_an_index(stores, use, index):
    assert any(index in plan for plan in plans(stores[1], use))


def test_one_run_among_many_costs_a_small_part_of_listing_them(stores):
    _, large = stores
    key, trial = run().spec.key, run().spec.trial.key
    listing = work(large, Store.summaries)
    assert large.find(key[:12]) == key
    assert work(large, lambda store: store.find(key[:12])) < listing / 5
    assert work(large, lambda store: store.has(key)) < listing / 50
    assert work(large, lambda store: store.summaries(trial=trial)) < listing / 50
    assert (
        work(large, lambda store: store.summaries(data="two-bit", method="erm", recipe="short", seed=3)) < listing / 5
    )


def test_adding_a_run_to_many_costs_what_it_costs_among_few(stores):
    small, large = (
        work(store, lambda store: [store.add(run(seed=seed)) for seed in range(1, 101)]) for store in stores
    )
    assert 0 < large < 2 * small


def test_the_seeds_of_a_trial_share_what_decided_them_and_are_what_was_written(store):
    written = [run(seed=0), run(seed=1), run(seed=1, hold_out="β=0.1")]
    other_name = replace(run(seed=2).spec, recipe_name="another name of it")
    written.append(replace(run(seed=2), spec=other_name))
    for each in written:
        store.add(each)
    found = store.trials([run().spec.trial.key])[run().spec.trial.key]
    assert sorted(map(repr, found)) == sorted(map(repr, written))
    assert found[0].spec.data is found[1].spec.data


def test_runs_are_listed_without_torch(store):
    store.add(run())
    code = f"""
import sys
from pathlib import Path
from invariance.experiments.store import Store
with Store(Path({str(store.path)!r}), must_exist=True) as opened:
    sys.exit(len(opened.summaries()) != 1 or "torch" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
