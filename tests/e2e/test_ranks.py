"""``train`` in the processes of torchrun, and on a Ray cluster."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from safetensors.torch import load_file

FRAGILE = """
    import os, signal
    from typing import ClassVar, final
    from pydantic.dataclasses import dataclass
    from invariance.core.fields import STRICT
    from invariance.core.ranks import rank
    from invariance.methods.base import Method
    from invariance.methods.rex import REx

    STEPS = []

    @final
    @dataclass(frozen=True, config=STRICT)
    class Fragile(Method):
        title: ClassVar[str] = "Fragile"
        formula: ClassVar[str] = ""
        citation: ClassVar[str] = ""

        def moves(self, model, batch, clock, generator):
            STEPS.append(clock.step)
            if clock.step == 13 and rank() == 1 and not os.environ.get("SPARED"):
                os.kill(os.getpid(), signal.SIGKILL)
            return REx(gamma=10).moves(model, batch, clock, generator)
"""
TRAIN = [
    *("train", "two-bit", "fragile", "--recipe", "full-batch", "--save-every", "0"),
    *("--set", "data.samples=51", "--set", "recipe.epochs=20", "--set", "model.width=8"),
]


@pytest.fixture
def fragile(plugin, tmp_path, monkeypatch) -> dict[str, str]:
    """A method whose second rank is killed after 13 updates; the environment of processes that find it."""
    monkeypatch.chdir(tmp_path)
    folder = plugin(FRAGILE, methods=["fragile = another_package:Fragile"])
    return os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}


def torchrun(*arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "invariance", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def test_a_rank_that_dies_ends_the_others_with_one_line_and_the_checkpoint_resumes_without_it(fragile, invariance):
    done = torchrun(*TRAIN, "-o", "run", env=fragile)
    assert done.returncode != 0
    assert done.stdout == ""
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert "another rank ended" in line
    (checkpoint,) = Path("run").iterdir()
    assert checkpoint.suffix == ".safetensors"
    resumed = invariance(*TRAIN, "-o", "run", "--json")
    assert resumed.code in {0, 3}, resumed.err  # 3: it has learned nothing in 20 updates
    steps = import_module("another_package").STEPS
    assert steps == list(range(12, 20))
    assert not checkpoint.exists()
    assert invariance(*TRAIN, "-o", "undisturbed", "--json").code == resumed.code
    found, expected = (load_file(Path(name) / "weights.safetensors") for name in ("run", "undisturbed"))
    assert all((found[k] - v).norm() <= 1e-5 * v.norm() for k, v in expected.items())


TERMINATED = """
import os, signal
from torch.distributed import HashStore
from invariance.core.ranks import joined, reports_first

class Late(HashStore):
    def add(self, name, number):
        if name == "reported":
            os.kill(os.getpid(), signal.SIGTERM)
        return super().add(name, number)

with joined((Late(), 0, 1)):
    print(reports_first(), reports_first())
"""


def test_a_rank_that_is_terminated_while_it_reports_reports_all_the_same():
    done = subprocess.run([sys.executable, "-c", TERMINATED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True False\n"), done.stderr


@pytest.mark.slow
def test_ranks_on_a_ray_cluster_give_the_weights_of_torchrun_and_end_together(fragile, installed, monkeypatch):
    patient = {"RAY_raylet_start_wait_time_s": "600", "RAY_worker_register_timeout_seconds": "600"}
    own = {"RAY_worker_niceness": "0", "XDG_STATE_HOME": str(Path.cwd())}
    for name, value in (fragile | patient | own).items():
        monkeypatch.setenv(name, value)
    lost = installed(*TRAIN, "-o", "ray", "--ranks", "2")
    assert (lost.code, lost.out) == (1, "")
    assert "another rank ended" in lost.error
    (checkpoint,) = Path("ray").iterdir()
    monkeypatch.setenv("SPARED", "1")
    went_on = installed(*TRAIN, "-o", "ray", "--ranks", "2", "--json")
    assert went_on.code in {0, 3}, went_on.err
    assert not checkpoint.exists()
    assert torchrun(*TRAIN, "-o", "torchrun", env=dict(os.environ)).returncode in {0, 1}
    found, expected = (load_file(Path(name) / "weights.safetensors") for name in ("ray", "torchrun"))
    assert found.keys() == expected.keys()
    assert all((found[k] == v).all() for k, v in expected.items())
    assert installed("evaluate", "ray", "--json").code == 0


def test_an_address_needs_ranks(invariance):
    assert invariance(*TRAIN[:2], "erm", "--address", "127.0.0.1:1").error.startswith("--address is for --ranks")


def test_variables_of_another_launcher_do_not_make_it_a_rank(invariance, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert invariance("list", "methods", "--json").json
