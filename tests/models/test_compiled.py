"""Features that torch compiles."""

import copy
import os
import shutil
import subprocess
import sys

import pytest
import torch

from invariance.core.families import Bernoulli
from invariance.core.fields import dumped
from invariance.methods import METHODS
from invariance.models.compiled import CXX, is_compiled
from invariance.models.mlp import MLP
from invariance.recipes.presets import recipe
from invariance.recipes.recipe import Recipe
from invariance.training.loop import Training


@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # torch's own
@pytest.mark.skipif(not shutil.which(os.environ.get("CXX") or CXX), reason="needs a C++ compiler: apt-get install g++")
def test_a_compiled_run_ends_with_the_weights_of_a_run_that_is_not(environments):
    ends = []
    for compiled in (False, True):
        how = Recipe(epochs=3, warmup=0.3, lr=0.1, step="sgd", compile=compiled)
        model, method = MLP(width=8).build((3,), 1), METHODS.create("irmv0", {"gamma": 10})
        training = Training(model, method, environments(6, 8), how, Bernoulli(), 0)
        while not training.finished:
            training.advance()
        assert is_compiled(training.model.features) is compiled
        assert not is_compiled(copy.deepcopy(training.model).features)
        ends.append(dict(training.model.state_dict()))
    import torch._dynamo.utils as compiler  # it is imported already, and takes a second

    assert compiler.counters["stats"]["unique_graphs"] > 0
    torch.testing.assert_close(*ends)


def test_without_a_compiler_the_error_says_so(tmp_path):
    command = [sys.executable, "-m", "invariance", "train", "two-bit", "erm", "--set", "recipe.compile=true"]
    bare = {**os.environ, "PATH": str(tmp_path), "CXX": ""}
    run = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False)
    assert run.returncode
    assert f"recipe.compile needs a C++ compiler, and there is no {CXX}" in run.stderr.replace("\n", " ")
    assert "Traceback" not in run.stderr


def test_the_field_is_not_named_in_stored_runs_at_its_default():
    assert "compile" not in dumped(recipe("short"))
    assert dumped(recipe("short", changes={"compile": True}))["compile"] is True
