"""One training on several ranks is the training on one."""

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from invariance.experiments.run import execute
from invariance.experiments.spec import Spec
from invariance.methods import METHODS

SCRIPT = Path(__file__).with_name("rank_runs.py")
TOLERANCE = {"torch.float32": 1e-5, "torch.float64": 1e-12}
Ends = dict[str, dict[str, Tensor]]


def launched(folder: Path, *arguments: str) -> Path:
    command = [sys.executable, str(SCRIPT), str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """The final states of every case on 1, 2 and 4 ranks."""
    return launched(tmp_path_factory.mktemp("ranks"))


def ends(folder: Path, name: str) -> Ends:
    """By case and name of tensor."""
    found: Ends = {}
    for key, value in load_file(folder / f"{name}.safetensors").items():
        case, tensor = key.split("|")
        found.setdefault(case, {})[tensor] = value
    return found


def apart(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """The largest relative distance of two tensors of a model or an averaged model."""
    assert a.keys() == b.keys()
    weights = [name for name in a if name.startswith(("model.", "averaged.module."))]
    return max(float((a[n] - b[n]).double().norm() / a[n].double().norm().clamp(min=1e-30)) for n in weights)


def assert_same(folder: Path, many: str, one: str, tolerance: float) -> Ends:
    found, expected = ends(folder, many), ends(folder, one)
    far = {case: d for case, end in found.items() if not (d := apart(expected[case], end)) <= tolerance}
    assert not far
    return found


@pytest.mark.parametrize("ranks", [2, 4])
def test_every_method_ends_with_the_weights_of_one_rank(runs, ranks):
    found = assert_same(runs, f"torch.float64 on {ranks}", "torch.float64 on 1", TOLERANCE["torch.float64"])
    assert found.keys() >= METHODS.classes.keys()
    assert all(int(found[name]["step"]) >= 8 for name in METHODS.classes)


@pytest.mark.slow
def test_every_method_ends_with_the_weights_of_one_rank_after_many_updates_and_in_single_precision(tmp_path):
    folder = launched(tmp_path, "single")
    for ranks, (dtype, tolerance) in product((2, 4), TOLERANCE.items()):
        found = assert_same(folder, f"{dtype} on {ranks}", f"{dtype} on 1", tolerance)
        assert all(int(found[name]["step"]) >= 20 for name in METHODS.classes)


@pytest.mark.parametrize("ranks", [1, 4])
def test_what_two_ranks_left_resumes_on_another_number_of_them(runs, ranks):
    found = assert_same(runs, f"resumed on {ranks}", "torch.float64 on 1", TOLERANCE["torch.float64"])
    assert len(found) == 3


def test_the_debiased_case_found_its_cue_and_the_game_stopped_early(runs):
    """Else these cases would not test what they are called."""
    found = ends(runs, "torch.float64 on 4")
    assert "offset" in found["env-poe, a cue is found"]
    assert bool(found["irm-game, stops early"]["stopped"])
    assert int(found["irm-game, stops early"]["step"]) < 5


def printed(folder: Path, command: str) -> list[str]:
    """By both ranks."""
    return [(folder / f"{command} {rank}" / "printed").read_text() for rank in (0, 1)]


def test_the_command_prints_and_writes_once_and_resumes_from_what_the_leader_has(runs):
    first, second = printed(runs, "train")
    run = json.loads(first)
    assert (run["status"], second) == ("finished", "")
    assert [checkpoint["step"] for checkpoint in run["history"]] == list(range(3, 31, 3))
    assert run["history"][0]["loss"] == 123  # so the first half was not trained again
    files = [sorted(path.name for path in (runs / f"train {rank}").rglob("*.*")) for rank in (0, 1)]
    assert files == [["manifest.json", "weights.safetensors"], []]
    alone = execute(Spec.from_json(run["spec"])).run.history[-1]
    assert run["history"][-1]["loss"] == pytest.approx(alone.loss, rel=1e-5)
    assert run["history"][-1]["test"]["by_environment"] == pytest.approx(alone.test.by_environment, rel=1e-5)


def test_another_command_is_refused_by_one_line(runs):
    assert "".join(printed(runs, "compare")) == "error: torchrun is for 'train'; give 'compare' without it\n"
    assert {(runs / f"compare {rank}" / "code").read_text() for rank in (0, 1)} == {"1"}


def test_the_statistics_of_batch_normalisation_are_those_of_all_ranks(runs):
    one, four = (ends(runs, f"torch.float64 on {ranks}")["irmv1, batch normalisation"] for ranks in (1, 4))
    running = [name for name in one if "running_" in name]
    assert running
    for name in running:
        torch.testing.assert_close(four[name], one[name], rtol=1e-12, atol=0)
