"""The examples run as they stand, and show what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

LOOPS = ("torch_loop.py", "lightning_loop.py")
FOLDER = Path(__file__).parents[1] / "examples"


def run(name: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(FOLDER / name)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def numbers(line: str) -> list[float]:
    return [float(text) for text in re.findall(r"-?\d+\.\d+", line)]


def test_every_example_is_run_here():
    names = {"misleading_column.py", "own_module.py", "grid_search.py", "regression.py", *LOOPS}
    assert {path.name for path in FOLDER.glob("*.py")} == names


def test_a_column_misleads_logistic_regression_and_not_us():
    *_, plain, own = run("misleading_column.py").splitlines()
    assert numbers(own)[1] > numbers(plain)[1] + 0.3


def test_a_module_of_ones_own_is_trained_and_kept():
    out = run("own_module.py")
    assert numbers(out.splitlines()[0])[-1] > 0.8
    assert "Licence: CC0-1.0" in out
    assert out.endswith("the loaded model predicts the same: True\n")


def test_a_grid_search_takes_the_invariant_model_by_its_worst_environment():
    average, worst = run("grid_search.py").splitlines()
    assert "erm" in average
    assert "erm" not in worst
    assert numbers(worst)[0] > numbers(average)[0] + 0.3


def test_regression_keeps_the_cause():
    plain, own = run("regression.py").splitlines()
    assert numbers(own)[1] > max(0.2, numbers(plain)[1] + 0.2)


@pytest.mark.parametrize("name", LOOPS)
def test_a_penalty_in_another_loop_keeps_the_column_that_keeps_its_meaning(name):
    plain, own = run(name).splitlines()
    assert numbers(plain)[-1] < 0.4
    assert numbers(own)[-1] > 0.65
