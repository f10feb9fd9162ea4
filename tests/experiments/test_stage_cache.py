"""Stages that runs share: nothing changes but the time, and nothing is believed that is not whole."""

import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from invariance.experiments.engines import run_all
from invariance.experiments.run import Run, execute
from invariance.experiments.spec import Spec
from invariance.experiments.stage_cache import StageCache, beginning, origin, stage_folder, stages
from invariance.experiments.store import Store
from invariance.methods import METHODS
from invariance.training.masks import Masks
from invariance.training.stages import Stage

MASKS = Masks()
PHASES = {"epochs": 4, "warmup": 0.5, "batch_size": 50, "penalty_batch_size": 100}
"""8 updates in small batches, then 4 in larger ones; measured after 3, 6, 9 and 12."""


def small(method: str, /, how: str = "two-phase", seed: int = 0, **sections) -> Spec:
    changes = {"data": {"samples": 100}, "evaluation": {"checkpoints": 4}, **sections}
    changes["recipe"] = {**PHASES, **sections.get("recipe", {})}
    return Spec.of("two-bit", method, how, seed, changes)


@cache
def alone(spec: Spec) -> Run:
    return replace(execute(spec).run, seconds=0.0)


def shared(spec: Spec, folder: Path) -> tuple[Run, int]:
    """The run, and how many of its updates were there."""
    found = stages(spec, folder, "cpu", None, MASKS)
    run = execute(spec, stages=found).run
    assert found
    return replace(run, seconds=0.0), found.updates


def assert_shared(spec: Spec, folder: Path, updates: int) -> None:
    """The run takes so many updates from the folder, and is the same as without."""
    assert shared(spec, folder) == (alone(spec), updates)


# Nothing changes


@pytest.mark.parametrize(
    "recipe",
    [
        *("two-phase", "debiased"),
        *(pytest.param(how, marks=pytest.mark.slow) for how in ("small-batch", "two-phase+sam", "full-batch")),
    ],
)
def test_every_method_has_the_same_bits_with_stages_of_others_its_own_and_none(tmp_path, recipe):
    changes = {"small-batch": {"average": 0.3}, "full-batch": {"batch_size": None, "penalty_batch_size": None}}
    for spec in [small(method, recipe, recipe=changes.get(recipe, {})) for method in METHODS.classes]:
        for _ in range(2):
            assert shared(spec, tmp_path)[0] == alone(spec)


def test_features_that_were_learned_by_one_method_serve_the_others(tmp_path):
    assert_shared(small("erm"), tmp_path, 0)
    for method in ("irmv1", "irmv0", "rex", "fishr", "bloc-irm"):
        assert_shared(small(method), tmp_path, 8)
    for method in ("birm", "irm-game", "grayscale", "env-poe"):  # l2, heads, data, no phases
        assert shared(small(method), tmp_path)[1] == 0


def test_weights_that_are_not_masked_yet_are_shared_with_those_that_never_are(tmp_path):
    for first, second in (("birm", "sparse-irm"), ("sparse-irm", "birm")):
        assert_shared(small(first), tmp_path / first, 0)
        assert_shared(small(second), tmp_path / first, 8)
    masked_early = small("sparse-irm", method={"start": 0.4})  # after 5 of 12 updates; measured after 3 and 6
    assert_shared(masked_early, tmp_path / "birm", 3)


def test_games_share_their_warm_up_of_erm(tmp_path):
    assert_shared(small("irm-game"), tmp_path, 0)
    assert_shared(small("irm-game", objective={"relaxation": 2.0}), tmp_path, 8)


@pytest.mark.parametrize(
    "sections",
    [
        {"seed": 1},
        {"data": {"samples": 101}},
        {"method": {"l2": 0.01}},
        {"method": {"gamma_before": 1.0}},
        {"recipe": {"lr": 2e-3}},
        {"recipe": {"batch_size": 40}},
        {"recipe": {"dropout": 0.1}},
        {"recipe": {"gradient": "sam"}},
        {"recipe": {"step": "sgd"}},
        {"model": {"width": 7}},
    ],
    ids=str,
)
def test_what_differs_before_the_switch_is_another_stage(tmp_path, sections):
    shared(small("erm"), tmp_path)
    assert_shared(small("irmv1", **sections), tmp_path, 0)


def test_a_penalty_before_the_switch_is_shared_by_runs_of_the_same_method_alone(tmp_path):
    shared(small("irmv1", method={"gamma_before": 1.0}), tmp_path)
    assert_shared(small("rex", method={"gamma_before": 1.0}), tmp_path, 0)
    assert_shared(small("irmv1", method={"gamma_before": 1.0, "gamma": 10.0}), tmp_path, 8)


def test_a_trial_with_another_weight_pays_for_the_penalty_phase_alone(tmp_path):
    shared(small("rex", method={"gamma": 10.0}), tmp_path)
    for gamma in (20.0, 30.0):
        assert_shared(small("rex", method={"gamma": gamma}), tmp_path, 8)


def test_what_was_measured_before_the_penalty_is_not_measured_again(tmp_path):
    def taken(step: int, spec: Spec) -> str:
        """What of the checkpoint after so many updates is taken from the folder."""
        run, _ = shared(spec, tmp_path)
        (found,) = (c for c in run.history if c.step == step)
        return "all" if found.loss == 99.0 else "scores" if found.risk == 99.0 else ""

    shared(small("rex"), tmp_path)
    folder = StageCache(tmp_path)
    for name in folder.names():
        if (stage := folder.load(name)) and stage.history:
            (tmp_path / f"{name}.safetensors").unlink()
            folder.save(name, stage._replace(history=(replace(stage.history[0], loss=99.0, risk=99.0),)))
    assert taken(6, small("rex", method={"gamma": 10.0})) == "all"
    assert taken(9, small("rex", method={"gamma": 10.0})) == ""
    assert taken(6, small("rex", evaluation={"checkpoints": 4, "train_rows": 10})) == "scores"
    assert taken(6, small("irmv1")) == "scores"
    assert taken(6, small("sparse-irm", method={"l2": small("rex").method.l2})) == ""  # its model has more parts


def test_a_longer_first_phase_goes_on_from_a_shorter_one(tmp_path):
    shared(small("rex"), tmp_path)
    longer = small("rex", recipe={"epochs": 8, "warmup": 0.5})  # measured after 6 and 12 of 16
    assert_shared(longer, tmp_path, 8)


def test_more_epochs_go_on_from_fewer_where_the_rate_is_constant(tmp_path):
    constant = {"schedule": "constant", "reset": False, "penalty_batch_size": None}
    shared(small("erm", recipe=constant), tmp_path)
    assert_shared(small("erm", recipe={**constant, "epochs": 8, "warmup": 0.25}), tmp_path, 16)
    shared(small("erm", seed=1), tmp_path)
    falling = small("erm", seed=1, recipe={"epochs": 8, "warmup": 0.25})  # measured after 5, 10, 15 and 20
    assert_shared(falling, tmp_path, 3 + 8 - 5)


def test_the_environment_classifier_is_trained_once_for_all_methods(tmp_path):
    debias = {"debias": 2, "average": 0.0}
    shared(small("rex", "debiased", recipe=debias), tmp_path)
    for method in ("sparse-irm", "irm-game", "env-poe"):
        assert shared(small(method, "debiased", recipe=debias), tmp_path)[1] >= 7


def test_a_run_that_resumes_goes_on_with_stages(tmp_path):
    from invariance.experiments.run import resume_state

    spec, partials = small("fishr"), []
    execute(spec, lambda *progress: partials.append(resume_state(*progress)))
    shared(small("erm"), tmp_path)
    for earlier in filter(None, partials):
        found = stages(spec, tmp_path, "cpu", earlier)
        run = execute(spec, resume_from=earlier, stages=found).run
        assert replace(run, seconds=0.0) == alone(spec)
        assert found
        assert found.updates == max(0, 8 - earlier.history[-1].step)


def test_seconds_are_those_of_a_run_that_shares_nothing(tmp_path):
    spec = small("rex")
    shared(small("erm"), tmp_path)
    folder = StageCache(tmp_path)
    for name in folder.names():
        stage = folder.load(name)
        assert stage
        (tmp_path / f"{name}.safetensors").unlink()
        folder.save(name, stage._replace(seconds=1000.0 + stage.seconds))
    assert execute(spec, stages=stages(spec, tmp_path, "cpu", None)).run.seconds > 1000


def test_the_origin_knows_threads(monkeypatch):
    before = origin(small("erm"), "cpu")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 99)
    assert origin(small("erm"), "cpu") != before


# What is on disk


def state(value: float, size: int = 1000) -> Stage:
    return Stage({"a": torch.full((size,), value)}, value)


def test_a_damaged_stage_is_computed_again_and_replaced(tmp_path):
    shared(small("erm"), tmp_path)
    files = sorted(tmp_path.glob("*.safetensors"))
    for i, path in enumerate(files):
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content if i % 2 else content[: len(content) // 2])
    assert_shared(small("irmv1"), tmp_path, 0)
    assert_shared(small("rex"), tmp_path, 8)
    assert_shared(small("erm"), tmp_path, 8)
    assert set(files) <= set(tmp_path.glob("*.safetensors"))


def test_all_files_stay_within_the_bound_and_the_least_used_goes_first(tmp_path):
    StageCache(tmp_path).save("0", state(0))
    bound = 3 * (tmp_path / "0.safetensors").stat().st_size + 10
    cache = StageCache(tmp_path, bound)
    for i in range(3):
        cache.save(f"{i}", state(i))
        os.utime(tmp_path / f"{i}.safetensors", (i, i))
    assert cache.load("0")
    cache.save("3", state(3))
    assert cache.names() == {"0", "2", "3"}
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= bound
    cache.save("4", state(4, size=10_000))
    assert cache.names() == set()


def test_what_a_killed_writer_left_is_removed(tmp_path):
    (tmp_path / "other.safetensors.part").write_bytes(b"half")
    StageCache(tmp_path).save("a", state(1.0))
    assert {path.name for path in tmp_path.iterdir()} == {"a.safetensors", "lock"}


WRITERS = """
import os, random, signal, sys, time
from pathlib import Path
import torch
from invariance.experiments.stage_cache import StageCache
from invariance.training.masks import Masks
from invariance.training.stages import Stage

cache = StageCache(Path(sys.argv[1]), max_bytes=3_000_000)
torch.set_num_threads(1)  # OpenMP does not survive a fork

def write(report):
    i = 0
    while True:
        i += 1
        cache.save(str(i % 5), Stage({"a": torch.full((200_000,), float(i % 5))}, float(i % 5)))
        os.write(report, b"!")

moments = random.Random(0)
for _ in range(8):
    hear, report = os.pipe()
    writers = []
    for _ in range(2):
        if not (writer := os.fork()):
            write(report)
        writers.append(writer)
    for _ in range(moments.randint(1, 8)):
        assert os.read(hear, 1)
    time.sleep(moments.uniform(0, 0.005))
    for writer in writers:
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
    os.close(hear)
    os.close(report)
    for name in cache.names():
        found = cache.load(name)
        assert found, "half a file under a whole one's name"
        print(*found.state["a"].unique().tolist(), float(name), found.seconds)
"""


def test_a_stage_is_whole_whenever_its_writers_are_killed(tmp_path):
    done = subprocess.run([sys.executable, "-c", WRITERS, str(tmp_path)], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines
    assert all(len(set(line.split())) == 1 for line in lines)


def test_a_full_disk_keeps_no_stage_and_stops_no_run(small_disk):
    cache = StageCache(small_disk / "stages")
    cache.save("large", state(1.0, size=200_000))
    assert cache.names() == set()
    assert cache.load("large") is None


# Through an engine


def test_runs_of_the_local_engine_share_and_fresh_ones_do_not(tmp_path):
    store, specs = tmp_path / "runs.db", [small("erm"), small("irmv1"), small("rex")]
    events = [event for event in run_all(specs, store, 1) if event.kind == "done"]
    assert [(event.reused, event.steps) for event in events] == [(0, 12), (8, 12), (8, 12)]
    with Store(store, must_exist=True) as runs:
        for spec in specs:
            run = runs.get(spec.key)
            assert run
            assert replace(run, seconds=0.0) == alone(spec)
    events = [event for event in run_all(specs, tmp_path / "other.db", 1, fresh=True) if event.kind == "done"]
    assert [event.reused for event in events] == [0, 0, 0]
    assert not stage_folder(tmp_path / "other.db").exists()


def test_runs_that_share_a_stage_begin_alike(tmp_path):
    specs = [small(method, how) for how in ("two-phase", "debiased") for method in METHODS.classes]
    specs += [small("rex", method={"gamma": 10.0}), small("rex", recipe={"epochs": 8}), small("rex", seed=1)]
    for spec in specs:
        shared(spec, tmp_path / f"{spec.key}")
    for first in specs:
        for second in specs:
            if stages_of(first, tmp_path) & stages_of(second, tmp_path):
                assert beginning(first) == beginning(second)


def stages_of(spec: Spec, folder: Path) -> set[str]:
    return set(StageCache(folder / spec.key).names())


def test_runs_that_share_nothing_do_not_begin_alike():
    methods = ("erm", "birm", "grayscale")  # l2, data
    specs = [small("erm", seed=1), small("erm", recipe={"lr": 2e-3}), *map(small, methods)]
    specs += [small("irm-game", method={"warm_up": "game"}), small("irm-game", method={"warm_up": "game", "l2": 0.5})]
    assert len({beginning(spec) for spec in specs}) == len(specs)


HELD = """
import time
from pathlib import Path
from typing import ClassVar
from pydantic.dataclasses import dataclass
from invariance.methods.base import Method
from invariance.methods.erm import ERM

@dataclass(frozen=True)
class Held(Method):
    title: ClassVar[str] = "Held"
    formula: ClassVar[str] = ""
    citation: ClassVar[str] = ""
    makes: str = ""
    awaits: str = ""

    def decided_by(self, clock, *, sliced):
        return "held"

    def moves(self, model, batch, clock, generator):
        if clock.step == 0:
            Path(self.makes).touch()
            while self.awaits and not Path(self.awaits).exists():
                time.sleep(0.01)
        yield from ERM().moves(model, batch, clock, generator)
"""


def test_two_workers_compute_no_stage_twice_while_there_is_other_work(tmp_path, plugin):
    """The first run waits until another has begun, and the one of another seed until the first is done."""
    plugin(HELD, objectives=["held = another_package:Held"])
    begun, over = str(tmp_path / "begun"), tmp_path / "over"
    first = small("held", method={"makes": str(tmp_path / "first"), "awaits": begun})
    alike = small("held", method={"makes": begun})
    other = small("held", seed=1, method={"makes": begun, "awaits": str(over)})
    reused = {}
    for event in run_all([first, alike, other], tmp_path / "runs.db", 2):
        if event.kind == "done":
            assert (event.status, event.steps) == ("finished", 12)
            reused[event.spec.key] = event.reused
            over.touch()
    assert reused == {first.key: 0, alike.key: 8, other.key: 0}
    with Store(tmp_path / "runs.db", must_exist=True) as runs:
        for spec in (first, alike, other):
            assert replace(runs.get(spec.key), seconds=0.0) == alone(spec)
