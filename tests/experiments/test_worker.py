"""A worker: one spec after another, each written whole, and what is left of those that were interrupted."""

import fcntl
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from invariance.experiments import resume
from invariance.experiments.run import ResumeState, Run, execute, resume_state
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store, work_folder
from invariance.experiments.worker import Worker


def small(method: str = "irmv1", /, seed: int = 0, **sections) -> Spec:
    recipe = {"epochs": 20, "batch_size": 100, **sections.pop("recipe", {})}
    return Spec.of("two-bit", method, "short", seed, {"data": {"samples": 200}, "recipe": recipe, **sections})


def plain(run: Run) -> Run:
    return replace(run, seconds=0.0)


@cache
def expected() -> Run:
    return plain(execute(small()).run)


class Bench:
    """A worker in this process, its store, and what it says."""

    def __init__(self, store: Path, save_every: float) -> None:
        self.ear = io.StringIO()
        self.worker = Worker(store, save_every, self.ear)
        self.store, self.folder = self.worker.store, work_folder(store)

    def work(self, spec: Spec) -> list[dict[str, Any]]:
        """Everything it says about a spec."""
        self.ear.seek(0)
        self.ear.truncate()
        self.worker.work(spec)
        return [json.loads(line) for line in self.ear.getvalue().splitlines()]

    def checkpoint(self, spec: Spec) -> Path:
        self.folder.mkdir(exist_ok=True)
        return self.folder / f"{spec.key}.safetensors"

    @property
    def left(self) -> list[str]:
        return [entry.name for entry in self.folder.iterdir()] if self.folder.exists() else []


@pytest.fixture
def bench(tmp_path) -> Iterator[Bench]:
    made = Bench(tmp_path / "runs.db", save_every=0.0)
    yield made
    made.store.close()


def test_a_run_is_done_told_and_written(bench):
    first, *_, last = bench.work(small())
    assert first == {"event": "step", "step": 1, "steps": 80, "seconds": first["seconds"]}
    assert last == {
        "event": "done",
        "status": "finished",
        "reason": "",
        "seconds": last["seconds"],
        "reused": 0,
        "steps": 80,
    }
    assert plain(bench.store.get(small().key)) == expected()
    assert bench.left == []


def test_a_run_that_is_there_is_not_done_again(bench):
    bench.work(small())
    before = bench.store.get(small().key)
    assert bench.work(small()) == [{"event": "done", "status": "there"}]
    assert bench.store.get(small().key) == before


@pytest.mark.parametrize(
    ("recipe", "status"), [({"lr": 1e30, "step": "sgd"}, "diverged"), ({"lr": 1e-9, "epochs": 1}, "collapsed")]
)
def test_a_run_that_ends_badly_is_a_result(bench, recipe, status):
    spec = small("erm", recipe=recipe, method={"l2": 1.0})
    *_, last = bench.work(spec)
    assert last["status"] == status
    assert last["reason"]
    assert bench.work(spec) == [{"event": "done", "status": "there"}]


def test_a_run_that_another_process_is_at_is_left_to_it(bench):
    bench.folder.mkdir()
    with (bench.folder / f"{small().key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert bench.work(small()) == [{"event": "busy"}]
        assert bench.store.summaries() == []
    assert bench.work(small())[-1]["status"] == "finished"
    assert bench.left == []


# From where it stood


@cache
def half_way(spec: Spec) -> ResumeState:
    """The run in the middle."""
    found: list[ResumeState | None] = []
    execute(spec, lambda *progress: found.append(resume_state(*progress)))
    return [state for state in found if state][4]


def test_a_run_goes_on_from_its_checkpoint(bench):
    resume.save(half_way(small()), bench.checkpoint(small()))
    first, *_ = bench.work(small())
    assert first["step"] > 40
    assert plain(bench.store.get(small().key)) == expected()
    assert bench.left == []


@pytest.mark.parametrize("content", [b"", b"garbage", "truncated"], ids=["empty", "garbage", "truncated"])
def test_a_checkpoint_that_cannot_be_read_starts_the_run_anew(bench, content):
    path = bench.checkpoint(small())
    resume.save(half_way(small()), path)
    path.write_bytes(path.read_bytes()[:-100] if content == "truncated" else content)
    first, *_, last = bench.work(small())
    assert (first["step"], last["status"]) == (1, "finished")
    assert plain(bench.store.get(small().key)) == expected()
    assert bench.left == []


@pytest.mark.parametrize("other", [small("irm-game"), small(model={"width": 3})], ids=["method", "width"])
def test_a_checkpoint_that_does_not_fit_spoils_at_most_one_try(bench, other):
    """It cannot come about but by hand or by another version, and must not keep a run from ever being done."""
    resume.save(half_way(other), bench.checkpoint(small()))
    bench.work(small())
    bench.work(small())
    assert plain(bench.store.get(small().key)) == expected()
    assert bench.left == []


def test_what_killed_processes_left_is_cleared_away_with_the_run(tmp_path):
    bench = Bench(tmp_path / "runs.db", save_every=3600.0)
    resume.save(half_way(small()), bench.checkpoint(small()))
    for ending in ("safetensors.part", "lock"):
        (bench.folder / f"{small().key}.{ending}").write_bytes(b"half")
    assert bench.work(small())[-1]["status"] == "finished"
    assert bench.left == []
    bench.store.close()


def test_a_run_is_kept_no_more_often_than_asked(tmp_path):
    bench = Bench(tmp_path / "runs.db", save_every=3600.0)
    seen: list[bool] = []
    monitor = bench.worker._monitor(small())
    execute(small(), lambda *progress: (monitor(*progress), seen.append(monitor.save.path.exists())))
    assert len(seen) == 80
    assert not any(seen)
    bench.store.close()


def test_a_run_is_kept_at_its_checkpoints(bench):
    bench.folder.mkdir()
    seen: list[tuple[bool, bool]] = []
    monitor = bench.worker._monitor(small())

    def watch(*progress) -> None:
        monitor(*progress)
        seen.append((resume_state(*progress) is not None, monitor.save.path.exists()))

    execute(small(), watch)
    first = [measured for measured, _ in seen].index(True)
    assert [there for _, there in seen] == [False] * first + [True] * (80 - first)
    kept = resume.load(monitor.save.path)
    assert (int(kept.state["step"]), len(kept.history)) == (80, 10)


# What goes wrong

BROKEN = """
from collections.abc import Iterator
from typing import ClassVar
from pydantic.dataclasses import dataclass
from invariance.methods.base import Method
from invariance.methods.erm import ERM

@dataclass(frozen=True)
class Broken(Method):
    title: ClassVar[str] = "Broken"
    formula: ClassVar[str] = ""
    citation: ClassVar[str] = ""
    after: int = 0

    def moves(self, model, batch, clock, generator):
        print("a plug-in may print", flush=True)
        if clock.step == self.after:
            raise ArithmeticError("two lines\\n  of reason")
        yield from ERM().moves(model, batch, clock, generator)
"""


def test_whatever_a_plug_in_raises_fails_its_run_in_one_line(bench, plugin):
    plugin(BROKEN, objectives=["broken = another_package:Broken"])
    for spec in (small("broken"), small("broken", method={"after": 50})):
        *_, last = bench.work(spec)
        assert last["status"] == "failed"
        assert last["reason"] == "ArithmeticError: two lines of reason"
        found = bench.store.get(spec.key)
        assert (found.status, found.reason, found.history) == ("failed", last["reason"], ())


def test_data_that_are_not_there_fail_the_run_in_one_line(bench, tmp_path, monkeypatch):
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path / "empty"))
    monkeypatch.setenv("INVARIANCE_CACHE", str(tmp_path / "cache/invariance"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    (last,) = bench.work(Spec.of("colored-mnist", "erm", "short"))
    assert last["status"] == "failed"
    assert last["reason"].startswith("mnist/train-images-idx3-ubyte.gz is not here")
    assert "\n" not in last["reason"]


def test_a_run_that_failed_is_tried_again(bench, plugin):
    plugin(BROKEN, objectives=["broken = another_package:Broken"])
    spec = small("broken", method={"after": 10**6})
    bench.store.add(Run(spec, "failed", (), 1.0, "it broke"))
    assert bench.work(spec)[-1]["status"] == "finished"
    assert [summary.status for summary in bench.store.summaries()] == ["finished"]


def test_a_disk_too_full_for_a_checkpoint_is_refused_in_one_line_and_finished_runs_stay(small_disk):
    bench = Bench(small_disk / "runs.db", save_every=0.0)
    assert bench.work(small())[-1]["status"] == "finished"
    *_, last = bench.work(small(seed=1, model={"width": 300}))
    assert last["event"] == "refused"
    assert last["reason"].startswith(f"cannot save the state of a run in {bench.folder} (")
    assert "\n" not in last["reason"]
    assert [summary.seed for summary in bench.store.summaries()] == [0]
    assert bench.work(small(seed=2))[-1]["status"] == "finished"
    bench.store.close()


def test_a_disk_too_full_for_a_result_is_refused_in_one_line_and_finished_runs_stay(small_disk):
    bench = Bench(small_disk / "runs.db", save_every=3600.0)
    assert bench.work(small())[-1]["status"] == "finished"
    ballast = small_disk / "ballast"
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize
    ballast.write_bytes(b"x" * free)
    *_, last = bench.work(small(seed=1))
    assert last["event"] == "refused"
    assert "\n" not in last["reason"]
    assert [summary.seed for summary in bench.store.summaries()] == [0]
    ballast.unlink()
    assert bench.work(small(seed=1))[-1]["status"] == "finished"
    bench.store.close()


# As a process


class Process:
    """A worker as its driver starts it."""

    def __init__(self, store: Path) -> None:
        command = [sys.executable, "-m", "invariance.experiments.worker", str(store), "0"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, **pipes)

    def give(self, spec: Spec) -> None:
        self.process.stdin.write(json.dumps(spec.to_json()) + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        return json.loads(self.process.stdout.readline())

    def hear_of(self, event: str) -> dict[str, Any]:
        while (heard := self.hear())["event"] != event:
            pass
        return heard


@pytest.fixture
def process(tmp_path) -> Iterator[Process]:
    made = Process(tmp_path / "runs.db")
    assert made.hear() == {"event": "ready"}
    yield made
    made.process.kill()
    made.process.wait()
    for pipe in (made.process.stdin, made.process.stdout, made.process.stderr):
        pipe.close()


LONG = small(recipe={"epochs": 4000})


def test_a_worker_outlives_ctrl_c_and_goes_when_its_driver_goes_in_the_middle_of_a_run(plugin, monkeypatch, request):
    monkeypatch.setenv("PYTHONPATH", str(plugin(BROKEN, objectives=["broken = another_package:Broken"])))
    process = request.getfixturevalue("process")  # now that it finds the plug-in
    process.give(small("broken", method={"after": 30}))
    assert process.hear_of("done")["reason"] == "ArithmeticError: two lines of reason"  # whatever was printed before
    process.give(small())
    process.hear_of("step")
    os.kill(process.process.pid, signal.SIGINT)
    assert process.hear_of("done")["status"] == "finished"
    process.give(LONG)
    process.hear_of("step")
    process.process.stdin.close()
    assert process.process.wait() == 0
    assert "Traceback" not in process.process.stderr.read()


def test_a_driver_that_does_not_listen_any_more_is_no_failure_of_the_run(process, tmp_path):
    """What a worker may see of a driver that was killed, before it sees the end of its standard input."""
    process.process.stdout.close()
    process.give(LONG)
    process.process.wait()
    store = Store(tmp_path / "runs.db")
    assert store.summaries() == []
    store.close()


IMPORTS = """
import sys
from invariance.experiments.run import execute
from invariance.experiments.spec import Spec
import invariance.experiments.worker

for method in ("irmv1", "env-poe"):
    execute(Spec.of("colored-digits", method, "default", 0, {"recipe": {"epochs": 1}, "data": {"draws": 50}}))
print(*(name for name in ("torch._dynamo", "sympy", "scipy", "pandas", "sklearn", "matplotlib") if name in sys.modules))
"""


def test_a_worker_imports_nothing_that_takes_longer_than_a_small_run():
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
