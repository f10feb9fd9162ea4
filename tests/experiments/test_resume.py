"""A resume state on disk: whole or not there, and never believed when it cannot be read."""

import json
import math
import os
import random
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from invariance.core.atomic import part_path
from invariance.core.errors import StoreError
from invariance.experiments.resume import load, save
from invariance.experiments.run import ResumeState, Run, execute, resume_state
from invariance.experiments.spec import Spec

SPECS = {
    "irmv1": {},
    "birm": {},
    "irm-game": {},
    "sparse-irm": {},
    "fishr": {"ema": 0.9},
    "bloc-irm": {"inner_optimiser": "adam"},
}
every_method = pytest.mark.parametrize("method", SPECS)


@cache
def interrupted(method: str = "irmv1") -> tuple[Run, list[ResumeState]]:
    """A whole run, and what would have been kept of it at each of its checkpoints."""
    changes = {"data": {"samples": 100}, "method": SPECS[method], "evaluation": {"checkpoints": 4}}
    changes["recipe"] = {"epochs": 4, "batch_size": 50, "average": 0.5}
    partials: list[ResumeState | None] = []
    run = execute(
        Spec.of("two-bit", method, "short", 1, changes),
        lambda *progress: partials.append(resume_state(*progress)),
    ).run
    return run, [partial for partial in partials if partial]


def assert_same(a: ResumeState, b: ResumeState) -> None:
    assert a.history == b.history
    assert a.seconds == b.seconds
    assert a.state.keys() == b.state.keys()
    for name, value in a.state.items():
        assert value.dtype == b.state[name].dtype
        assert torch.equal(value, b.state[name])


@every_method
def test_what_is_saved_is_loaded(tmp_path, method):
    for i, partial in enumerate(interrupted(method)[1]):
        save(partial, path := tmp_path / f"{i}.safetensors")
        assert_same(load(path), partial)


@every_method
def test_a_run_goes_on_from_a_file_as_if_it_had_never_stopped(tmp_path, method):
    whole, partials = interrupted(method)
    save(partials[1], tmp_path / "run.safetensors")
    run = execute(whole.spec, resume_from=load(tmp_path / "run.safetensors")).run
    assert replace(run, seconds=0.0) == replace(whole, seconds=0.0)


def test_numbers_that_are_not_finite_are_kept(tmp_path):
    _, (_, second, *_) = interrupted()
    odd = second._replace(
        history=(replace(second.history[0], loss=math.nan), replace(second.history[1], loss=math.inf))
    )
    save(odd, tmp_path / "run.safetensors")
    assert repr(load(tmp_path / "run.safetensors").history) == repr(odd.history)


def test_tensors_are_kept_however_they_lie_in_memory(tmp_path):
    partial = interrupted()[1][0]
    turned = torch.arange(6.0).view(2, 3).T
    save(partial._replace(state={**partial.state, "model.turned": turned}), tmp_path / "run.safetensors")
    assert torch.equal(load(tmp_path / "run.safetensors").state["model.turned"], turned)


# Whole or not at all


def test_a_later_state_takes_the_place_of_an_earlier_one_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "run.safetensors"
    for partial in interrupted()[1]:
        save(partial, path)
    assert_same(load(path), interrupted()[1][-1])
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_left_half_written_does_no_harm(tmp_path):
    path = tmp_path / "run.safetensors"
    first, second, *_ = interrupted()[1]
    save(first, path)
    part_path(path).write_bytes(path.read_bytes()[:100])
    assert_same(load(path), first)
    save(second, path)
    assert_same(load(path), second)
    assert list(tmp_path.iterdir()) == [path]


WRITERS = """
import os, random, signal, sys, time
from pathlib import Path
import torch
from invariance.experiments.resume import load, save
from invariance.experiments.run import ResumeState

path = Path(sys.argv[1])
torch.set_num_threads(1)  # OpenMP does not survive a fork

def write(report):
    i = 0
    while True:
        i += 1
        save(ResumeState({"a": torch.full((200_000,), float(i)), "b": torch.tensor(float(i))}, (), float(i)), path)
        os.write(report, b"!")

moments = random.Random(0)
for _ in range(12):
    hear, report = os.pipe()
    if not (writer := os.fork()):
        write(report)
    os.close(report)
    for _ in range(moments.randint(1, 5)):
        assert os.read(hear, 1), "the writer ended by itself"
    time.sleep(moments.uniform(0, 0.005))
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    os.close(hear)
    found = load(path)
    print(*found.state["a"].unique().tolist(), found.state["b"].item(), found.seconds)
"""


def test_a_file_is_whole_whenever_its_writer_is_killed(tmp_path):
    path = tmp_path / "run.safetensors"
    command = [sys.executable, "-c", WRITERS, str(path)]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 12
    assert all(len(set(line.split())) == 1 for line in lines)
    assert {entry.name for entry in tmp_path.iterdir()} <= {"run.safetensors", "run.safetensors.part"}


# What cannot be read


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    match how:
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "truncated header":
            path.write_bytes(content[:200])
        case "truncated":
            path.write_bytes(content[:-1000])
        case "garbage":
            path.write_bytes(os.urandom(len(content)))
        case "text":
            path.write_text("no tensors here\n")
        case "huge header":
            path.write_bytes(b"\xff" * 8 + content[8:])
        case "a folder":
            path.unlink()
            path.mkdir()
        case "no history":
            save_file({"step": torch.tensor(3)}, path)
        case "another history":
            save_file({"step": torch.tensor(3)}, path, {"history": json.dumps([{"step": "x"}]), "seconds": "1.0"})
        case "seconds are no number":
            save_file({"step": torch.tensor(3)}, path, {"history": "[]", "seconds": "long"})


@pytest.mark.parametrize(
    "how",
    [
        *("missing", "empty", "truncated header", "truncated", "garbage", "text", "huge header", "a folder"),
        *("no history", "another history", "seconds are no number"),
    ],
)
def test_a_file_that_cannot_be_read_is_as_good_as_none(tmp_path, how):
    path = tmp_path / "run.safetensors"
    save(interrupted()[1][1], path)
    damage(path, how)
    assert load(path) is None


# Where it cannot be written


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError) as caught:
        save(interrupted()[1][0], tmp_path / "file" / "run.safetensors")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"cannot save the state of a run in {tmp_path / 'file'} (")


def test_a_full_disk_is_one_line_and_the_earlier_state_stays(small_disk):
    path = small_disk / "run.safetensors"
    small = ResumeState({"a": torch.zeros(1000)}, (), 1.0)
    save(small, path)
    with pytest.raises(StoreError) as caught:
        save(ResumeState({"a": torch.zeros(1_000_000)}, (), 2.0), path)
    message = str(caught.value)
    assert "\n" not in message
    assert "No space left" in message
    assert "finished runs are safe" in message
    assert_same(load(path), small)
    assert list(small_disk.iterdir()) == [path]


def test_a_state_with_one_bit_flipped_is_none(tmp_path):
    save(interrupted()[1][0], path := tmp_path / "state.safetensors")
    whole, rng = path.read_bytes(), random.Random(0)
    assert load(path) is not None
    for _ in range(64):
        changed = bytearray(whole)
        changed[rng.randrange(8, len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        assert load(path) is None
