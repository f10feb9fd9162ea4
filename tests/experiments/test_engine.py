"""The engine with real processes, which are killed for real."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from invariance.core.errors import BadValue, InvarianceError, StoreError
from invariance.experiments.engines import run_all
from invariance.experiments.engines.base import Event
from invariance.experiments.engines.local import Local
from invariance.experiments.run import SNAPSHOTS, Run, execute
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store, work_folder

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")


def small(method: str = "erm", /, seed: int = 0, **sections) -> Spec:
    """A run of a moment."""
    recipe = {"epochs": 30, "batch_size": 100, **sections.pop("recipe", {})}
    return Spec.of("two-bit", method, "short", seed, {"data": {"samples": 200}, "recipe": recipe, **sections})


def plain(run: Run | None) -> Run:
    assert run
    return replace(run, seconds=0.0)


def done(events: Sequence[Event]) -> dict[str, str]:
    """The status of every run that ended, by its key; each ends once."""
    ends = [event for event in events if event.kind == "done"]
    assert len({event.spec.key for event in ends}) == len(ends)
    return {event.spec.key: event.status for event in ends}


def stored(path: Path) -> dict[str, Run]:
    """Every run of a store by its key."""
    store = Store(path, must_exist=True)
    found = {summary.key: plain(store.get(summary.key)) for summary in store.summaries()}
    store.close()
    return found


# Processes


def alive(pid: int) -> bool:
    """Whether a process is there; one that has ended and was not yet asked about does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def workers(store: Path) -> list[int]:
    """The worker processes of a store, whoever started them."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"invariance.experiments.worker" in command and str(store).encode() in command:
            found.append(int(entry.name))
    return sorted(filter(alive, found))


def wait_until(true: Callable[[], object]) -> None:
    while not true():
        time.sleep(0.02)


DRIVER = """
import json, signal, sys
from pathlib import Path
from invariance.experiments.engines import run_all
from invariance.experiments.spec import Spec

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background of a shell
work, store, workers = sys.argv[1:]
specs = [Spec.from_json(plain) for plain in json.loads(Path(work).read_text())]
print("ready", flush=True)
sys.stdin.readline()
failures = True
while failures:
    failures = False
    for event in run_all(specs, Path(store), int(workers), save_every=0):
        failures |= event.status == "failed"
        print(json.dumps({**event._asdict(), "spec": event.spec.key}), flush=True)
"""


class Driver:
    """A driver in its own process and process group, which tries again what failed until nothing does."""

    def __init__(self, specs: Sequence[Spec], store: Path, workers: int) -> None:
        work = store.with_name("work.json")
        work.write_text(json.dumps([spec.to_json() for spec in specs]))
        command = [sys.executable, "-c", DRIVER, str(work), str(store), str(workers)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.store = store
        self.process = subprocess.Popen(command, text=True, start_new_session=True, **pipes)

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()

    def start(self) -> None:
        """Let it begin, once it is ready to."""
        assert self.process.stdout.readline() == "ready\n", self.process.stderr.read()
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def events(self) -> Iterator[dict[str, Any]]:
        """What it says, until it has ended; ``spec`` is a key."""
        for line in self.process.stdout:
            if line.endswith("}\n"):
                yield json.loads(line)


# Runs


def test_two_workers_find_what_one_process_finds_and_leave_other_processes_alone(tmp_path):
    specs = [small(method, seed) for method in ("erm", "sparse-irm") for seed in (0, 1)]
    with subprocess.Popen(["sleep", "600"]) as bystander:
        events = list(run_all([*specs, *specs], tmp_path / "runs.db", workers=2))
        left_alone = bystander.poll() is None
        bystander.kill()
    assert left_alone
    assert done(events) == {spec.key: "finished" for spec in specs}
    assert stored(tmp_path / "runs.db") == {spec.key: plain(execute(spec).run) for spec in specs}
    steps = [event for event in events if event.kind == "step"]
    assert {event.spec for event in steps} == set(specs)
    assert all(0 < event.step <= event.steps and event.seconds > 0 for event in steps)
    assert not workers(tmp_path / "runs.db")
    assert not work_folder(tmp_path / "runs.db").exists()
    assert list(run_all(specs, tmp_path / "runs.db", workers=2)) == []


def test_closing_the_iterator_ends_the_workers_and_keeps_what_is_finished(tmp_path):
    store = tmp_path / "runs.db"
    specs = [small(), small(seed=1, recipe={"epochs": 4000})]
    events = run_all(specs, store, workers=1, save_every=0, verbose=True)  # through the bar, too
    first = next(event for event in events if event.kind == "done")
    assert next(events).kind == "step"
    (worker,) = workers(store)
    events.close()
    assert not alive(worker)
    assert stored(store).keys() == {first.spec.key} == {small().key}


def test_a_driver_keeps_its_workers_until_it_is_closed_and_replaces_one_that_was_killed(tmp_path):
    store = tmp_path / "runs.db"
    first, second, third = ([small(seed=seed), small(seed=seed + 1)] for seed in (0, 2, 4))
    with closing(Local(workers=2).driver(store)) as driver:
        assert set(done(list(driver.run(first))).values()) == {"finished"}
        started = workers(store)
        assert set(done(list(driver.run(second))).values()) == {"finished"}
        assert workers(store) == started
        driver.workers[0].process.kill()
        driver.workers[0].process.wait()
        assert set(done(list(driver.run(third))).values()) == {"finished"}
        assert list(driver.run([*first, *second, *third])) == []
    assert not workers(store)
    assert stored(store).keys() == {spec.key for spec in (*first, *second, *third)}


def test_an_option_of_another_engine_names_that_engine(tmp_path):
    with pytest.raises(BadValue, match="--checkpoints belongs to --engine ray, and the engine is local"):
        run_all([small()], tmp_path / "runs.db", checkpoints="s3://bucket/folder")


def test_no_worker_is_too_few(tmp_path):
    with pytest.raises(BadValue, match="workers = 0 cannot be used"):
        list(run_all([small()], tmp_path / "runs.db", workers=0))


# What fails


MORTAL = """
import os
from pathlib import Path
from typing import ClassVar
from pydantic.dataclasses import dataclass
from invariance.methods.base import Method
from invariance.methods.erm import ERM

@dataclass(frozen=True)
class Mortal(Method):
    title: ClassVar[str] = "Mortal"
    about: ClassVar[str] = ""
    formula: ClassVar[str] = ""
    citation: ClassVar[str] = ""
    file: str = ""
    signal: int = 0

    def moves(self, model, batch, clock, generator):
        if clock.step > clock.steps / 2 and Path(self.file).exists():
            Path(self.file).unlink()
            os.kill(os.getpid(), self.signal)
        yield from ERM().moves(model, batch, clock, generator)
"""


def test_a_killed_worker_fails_its_run_alone_which_then_goes_on_where_it_stood(tmp_path, monkeypatch, plugin):
    """One is killed as the system does when memory runs out, one crashes; each dies half-way through its run, once."""
    plugin(MORTAL, objectives=["mortal = another_package:Mortal"])
    monkeypatch.chdir(tmp_path)  # where a core dump would go
    store = tmp_path / "runs.db"
    ends = {signal.SIGKILL: tmp_path / "kill", signal.SIGSEGV: tmp_path / "crash"}
    killed, crashed = (small("mortal", method={"file": str(path), "signal": int(s)}) for s, path in ends.items())
    fine = small(seed=2)
    for path in ends.values():
        path.touch()
    events = list(run_all([killed, crashed, fine], store, workers=1, save_every=0))
    assert done(events) == {killed.key: "failed", crashed.key: "failed", fine.key: "finished"}
    reasons = {event.spec.key: event.reason for event in events if event.kind == "done"}
    assert reasons[killed.key] == "its worker process was ended by SIGKILL (out of memory?)"
    assert reasons[crashed.key] == "its worker process was ended by SIGSEGV"
    assert {key: (run.status, run.reason) for key, run in stored(store).items()} == {
        killed.key: ("failed", reasons[killed.key]),
        crashed.key: ("failed", reasons[crashed.key]),
        fine.key: ("finished", ""),
    }
    again = list(run_all([killed, crashed, fine], store, workers=1, save_every=0))
    assert done(again) == {killed.key: "finished", crashed.key: "finished"}
    assert all(event.step > event.steps / 4 for event in again if event.kind == "step")
    assert stored(store)[killed.key] == plain(execute(killed).run)


def test_a_worker_that_is_killed_before_it_began_is_replaced(tmp_path):
    store = tmp_path / "runs.db"

    def kill_the_first() -> None:
        wait_until(lambda: workers(store))
        os.kill(workers(store)[0], signal.SIGKILL)

    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(kill_the_first)
        assert done(list(run_all([small()], store, workers=1))) == {small().key: "finished"}
        killed.result()


PLUGIN = """
import os
from typing import ClassVar
from pydantic.dataclasses import dataclass
from invariance.data.base import DataSet
from invariance.data.two_bit import TwoBit
from invariance.models.mlp import MLP
from invariance.methods.base import Method

class Both:
    title: ClassVar[str] = "Broken"
    about: ClassVar[str] = ""
    formula: ClassVar[str] = ""
    citation: ClassVar[str] = ""
    licence: ClassVar[str] = ""

@dataclass(frozen=True)
class Raises(Both, Method):
    def moves(self, model, batch, clock, generator):
        raise ArithmeticError("two lines\\n  of reason")

@dataclass(frozen=True)
class Undecided(Both, Method):
    def decided_by(self, clock, *, sliced):
        raise ArithmeticError("nobody knows")

    def moves(self, model, batch, clock, generator):
        yield from ()

@dataclass(frozen=True)
class Leaves(Both, Method):
    def moves(self, model, batch, clock, generator):
        print("last words")
        os.system("echo very last words >&2")
        os._exit(7)

@dataclass(frozen=True)
class Nowhere(Both, DataSet):
    architecture: ClassVar[MLP] = MLP(width=4)

    def load(self, seed, *, oracle=False):
        raise FileNotFoundError(2, "No such file or directory", "/patients.csv")
"""


def test_a_plug_in_that_breaks_and_data_that_are_missing_fail_their_runs_alone(tmp_path, plugin, monkeypatch):
    plugin(
        PLUGIN,
        objectives=[f"{name.lower()} = another_package:{name}" for name in ("Raises", "Undecided", "Leaves")],
        data=["nowhere = another_package:Nowhere"],
    )
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path / "empty"))
    monkeypatch.setenv("INVARIANCE_CACHE", str(tmp_path / "cache/invariance"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    specs = [
        small("raises"),
        small("undecided"),
        Spec.of("nowhere", "erm", "short"),
        Spec.of("colored-mnist", "erm", "short"),
        small("leaves"),
        small("erm"),
    ]
    events = list(run_all(specs, tmp_path / "runs.db", workers=1))
    assert list(done(events).values()) == ["failed"] * 5 + ["finished"]
    raised, undecided, unfound, missing, left, fine = (stored(tmp_path / "runs.db")[spec.key].reason for spec in specs)
    assert raised == "ArithmeticError: two lines of reason"
    assert undecided == "ArithmeticError: nobody knows"
    assert unfound == "FileNotFoundError: [Errno 2] No such file or directory: '/patients.csv'"
    assert missing.startswith("mnist/train-images-idx3-ubyte.gz is not here and none of its 2 sources gave it")
    assert left == "its worker process ended with code 7: very last words"
    assert fine == ""
    assert not any("\n" in reason for reason in (raised, unfound, missing, left))


def test_workers_that_cannot_start_end_the_study_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "filelock.py").write_text("raise ImportError('a broken installation')\n")
    monkeypatch.syspath_prepend(tmp_path / "broken")  # workers import from where their driver does
    with pytest.raises(InvarianceError) as caught:
        list(run_all([small()], tmp_path / "runs.db", workers=1))
    assert str(caught.value) == (
        "a worker process did not start: its worker process ended with code 1: ImportError: a broken installation"
    )
    assert not workers(tmp_path / "runs.db")


def test_a_full_disk_ends_the_study_in_one_line_and_keeps_what_is_finished(small_disk):
    store = small_disk / "runs.db"
    specs = [small(), small(seed=1, model={"width": 300})]  # a checkpoint of this one is larger than the disk
    with pytest.raises(StoreError, match=r"cannot save the state of a run .*No space left") as caught:
        list(run_all(specs, store, workers=1, save_every=0))
    assert "\n" not in str(caught.value)
    assert not workers(store)
    assert stored(store) == {specs[0].key: plain(execute(specs[0]).run)}


@pytest.mark.parametrize("content", ["folder", "text"])
def test_a_store_that_cannot_be_used_is_refused_before_a_worker_starts(tmp_path, content):
    path = tmp_path / "runs.db"
    path.mkdir() if content == "folder" else path.write_text("no database, but quite some text\n" * 10)
    with pytest.raises(StoreError) as caught:
        list(run_all([small()], path, workers=1))
    assert "\n" not in str(caught.value)
    assert not workers(path)


# Drivers that end, and several of them


def test_ctrl_c_ends_the_workers_too_and_keeps_what_is_finished(tmp_path):
    store = tmp_path / "runs.db"
    specs = [small(), *(small(seed=seed, recipe={"epochs": 4000}) for seed in (1, 2))]
    with Driver(specs, store, workers=2) as driver:
        driver.start()
        at_work: set[str] = set()
        for event in driver.events():
            at_work |= {event["spec"]} if event["kind"] == "step" else set()
            if at_work >= {spec.key for spec in specs[1:]}:
                break
        pids = workers(store)
        assert len(pids) == 2
        os.killpg(driver.process.pid, signal.SIGINT)
        assert driver.process.wait() != 0
        assert not any(alive(pid) for pid in pids)
        assert "KeyboardInterrupt" in driver.process.stderr.read()
    assert stored(store) == {specs[0].key: plain(execute(specs[0]).run)}


def test_two_drivers_on_one_store_do_no_run_twice_and_lose_none(tmp_path):
    store = tmp_path / "runs.db"
    specs = [small(seed=seed) for seed in range(4)]
    with Driver(specs, store, workers=1) as first, Driver(specs[::-1], store, workers=1) as second:
        first.start()
        begun = next(first.events())
        (pid,) = workers(store)
        os.kill(pid, signal.SIGSTOP)  # in the middle of its runs, so that the second driver finds some to do
        second.start()
        other = [next(event for event in second.events() if event["kind"] == "done")]
        os.kill(pid, signal.SIGCONT)
        heard = [[begun, *first.events()], [*other, *second.events()]]
        assert [driver.process.wait() for driver in (first, second)] == [0, 0]
    heard = [[event for event in events if event["kind"] == "done"] for events in heard]
    own, other = ({event["spec"] for event in events if event["status"] == "finished"} for events in heard)
    assert own
    assert other
    assert not own & other
    assert own | other == {spec.key for spec in specs}
    assert {event["status"] for events in heard for event in events} <= {"finished", "there"}
    assert {key: run.status for key, run in stored(store).items()} == {spec.key: "finished" for spec in specs}
    assert not work_folder(store).exists()


# Many kills


def digits(method: str, /, name: str = "short", seed: int = 0, **sections) -> Spec:
    """A run of about a second."""
    length = {"epochs": 10, "batch_size": 256} if name == "short" else {"epochs": 90}
    data = {"draws": 2000, **sections.pop("data", {})}
    changes = {"data": data, "model": {"width": 32}, "recipe": length | sections.pop("recipe", {})}
    changes["evaluation"] = {"train_rows": 500, **sections.pop("evaluation", {})}
    return Spec.of("colored-digits", method, name, seed, changes | sections)


STUDY = [
    digits("irmv1", evaluation={"landscape": 3}),
    digits("sparse-irm"),
    digits("sparse-irm", "full-batch", recipe={"average": 0.5}),
    digits("irm-game"),
    digits("birm", "full-batch", seed=1),
    digits("birm", recipe={"average": 0.3}),
    digits("bloc-irm", method={"inner_optimiser": "adam"}),
    digits("bloc-irm", "full-batch", method={"inner_optimiser": "adam"}, recipe={"average": 0.5}),
    digits("fishr", method={"ema": 0.9}),
    digits("irmv0", "full-batch+sam"),
    digits("rex", recipe={"step": "lalr", "lr": 0.05, "reset": True}),
    digits("erm", data={"betas": [0.1, 0.2, 0.3]}).holding_out("β=0.2"),
]


LONGER = [
    digits("irmv1", recipe={"epochs": 60}, evaluation={"landscape": 3}),
    digits("birm", "full-batch", seed=1, recipe={"epochs": 540}),
    digits("fishr", recipe={"epochs": 60}, method={"ema": 0.9}),
]
"""Runs of a few seconds, so that a worker that is killed early has time to come back before they end."""


class Study:
    """A study that is interrupted again and again, and what was seen of it."""

    def __init__(self, store: Path, specs: Sequence[Spec], drivers: int, workers: int, seed: int) -> None:
        self.store, self.specs = store, specs
        self.random = random.Random(seed)
        victims = ["driver"] * drivers + ["worker"] * workers
        self.victims = self.random.sample(victims, len(victims))
        self.moments = sorted(4 * [self.random.uniform(0.05, 0.4) for _ in range(len(victims) // 4)])
        """Shares of the whole study; at the first sign of life after one of them, somebody is killed. Four in a row, so
        that some die when they have just been born."""
        self.share = dict.fromkeys((spec.key for spec in specs), 0.0)
        self.fresh = set(self.share)
        self.kept: set[str] = set()
        self.resumed: set[str] = set()
        self.finished: Counter[str] = Counter()
        self.killed: Counter[str] = Counter()

    def go_on(self) -> bool:
        """Run a driver until it has ended; whether there is more to do."""
        self.fresh = set(self.share)
        with Driver(self.specs, self.store, workers=2) as driver:
            driver.start()
            for event in driver.events():
                self.see(event)
                if self.moments and sum(self.share.values()) / len(self.specs) > self.moments[0]:
                    self.kill(driver)
            code = driver.process.wait()
            assert code in (0, -signal.SIGKILL), driver.process.stderr.read()
        wait_until(lambda: not workers(self.store))  # they go with their driver
        return code != 0

    def see(self, event: dict[str, Any]) -> None:
        key, step, steps = event["spec"], event["step"], event["steps"]
        if event["kind"] == "step":
            if key in self.fresh and step > 2 * math.ceil(steps / SNAPSHOTS):
                self.resumed.add(key)  # a run from the beginning first speaks at its first tick
            self.fresh.discard(key)
            self.share[key] = max(self.share[key], step / steps)
        elif event["status"] == "failed":
            assert "was ended by SIGKILL" in event["reason"]
            self.fresh.add(key)
        else:
            assert event["status"] in ("finished", "collapsed")
            self.finished[key] += 1
            self.share[key] = 1.0

    def kill(self, driver: Driver) -> None:
        time.sleep(self.random.uniform(0, 0.3))
        processes = workers(self.store)
        if driver.process.poll() is not None or (self.victims[0] == "worker" and not processes):
            return
        pid = driver.process.pid if self.victims[0] == "driver" else self.random.choice(processes)
        os.kill(pid, signal.SIGKILL)
        self.killed[self.victims.pop(0)] += 1
        self.moments.pop(0)
        self.kept |= {path.stem for path in work_folder(self.store).glob("*.safetensors")}


@pytest.mark.parametrize(
    ("specs", "drivers", "killed"),
    [(LONGER, 1, 3), pytest.param(STUDY, 3, 17, marks=pytest.mark.slow)],
    ids=["four", "twenty"],
)
def test_kills_in_one_study_lose_nothing_and_change_no_bit(tmp_path, specs, drivers, killed):
    study = Study(tmp_path / "runs.db", specs, drivers, killed, seed=3)
    while study.go_on():
        before = {key: run for key, run in stored(study.store).items() if run.status != "failed"}
        assert before.keys() >= study.finished.keys()
    assert study.killed == {"driver": drivers, "worker": killed}
    assert min(len(study.resumed), len(study.kept)) >= min(drivers, 2)
    assert max(study.finished.values()) == 1
    assert stored(study.store) == {spec.key: plain(execute(spec).run) for spec in specs}
    assert not work_folder(study.store).exists()
