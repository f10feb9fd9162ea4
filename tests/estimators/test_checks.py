"""scikit-learn's own checks, in a fresh interpreter where none of them is skipped."""

import os
import subprocess
import sys

import pytest

CODE = """
import sys, warnings
import torch
from sklearn.utils.estimator_checks import check_estimator
import invariance

torch.set_num_threads(1)
warnings.simplefilter("error", UserWarning)
warnings.filterwarnings("ignore", "the model has collapsed", UserWarning)
warnings.filterwarnings("ignore", "with one environment there is nothing to be invariant across", UserWarning)
short = invariance.recipe("full-batch", changes={"lr": 0.1, "schedule": "decay", "epochs": 40})
fields = {"recipe": short} if sys.argv[2] == "short" else {}
results = check_estimator(getattr(invariance, sys.argv[1])(**fields), on_skip=None, on_fail="raise")
print(len(results), {result["status"] for result in results})
"""


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("InvariantClassifier", "short"),
        ("InvariantRegressor", "default"),
        pytest.param("InvariantClassifier", "default", marks=pytest.mark.slow),
    ],
)
def test_it_is_an_estimator_to_scikit_learn(name, how):
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CODE, name, how]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    many, status = done.stdout.split(maxsplit=1)
    assert int(many) > 40
    assert status.strip() == "{'passed'}"
