"""Features that torch compiles."""

import copy
import os
import shutil
import subprocess
import sys

import pytest
import torch
from torch import nn

from invariance.core.families import Bernoulli
from invariance.core.fields import dumped
from invariance.methods import METHODS
from invariance.models.base import Model
from invariance.models.compiled import CXX, is_compiled
from invariance.models.mlp import MLP
from invariance.models.scratch import FixedLayer
from invariance.recipes.presets import recipe
from invariance.recipes.recipe import Recipe
from invariance.training.loop import Training
from invariance.training.stages import names


class Halved(FixedLayer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / 2


def ours() -> Model:
    return MLP(width=8).build((3,), 1)


def of_torch() -> Model:
    torch.manual_seed(0)
    return Model(nn.Sequential(nn.Linear(3, 8), nn.ReLU()), nn.Linear(8, 1))


def behind_a_fixed_layer() -> Model:
    model = ours()
    model.features = nn.Sequential(Halved(), model.features)
    return model


def training_of(model: Model, data, compiled: bool) -> Training:
    how = Recipe(epochs=3, warmup=0.3, lr=0.1, step="sgd", compile=compiled)
    return Training(model, METHODS.create("irmv0", {"gamma": 10}), data, how, Bernoulli(), 0)


@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # torch's own
@pytest.mark.skipif(not shutil.which(os.environ.get("CXX", CXX)), reason="needs a C++ compiler: apt-get install g++")
@pytest.mark.parametrize("network", [ours, of_torch, behind_a_fixed_layer])
def test_a_compiled_run_ends_with_the_weights_of_a_run_that_is_not(environments, network):
    import torch._dynamo.utils as compiler  # it takes a second, and torch.compile imports it

    torch.compiler.reset()
    compiler.counters.clear()
    ends = []
    for compiled in (False, True):
        training = training_of(network(), environments(6, 8), compiled)
        while not training.finished:
            training.advance()
        assert is_compiled(training.model.features) is compiled
        assert not is_compiled(copy.deepcopy(training.model).features)
        ends.append(dict(training.model.state_dict()))
    assert compiler.counters["stats"]["unique_graphs"] == 1
    torch.testing.assert_close(*ends)


def test_a_compiled_run_shares_no_stage_with_one_that_is_not(environments):
    found = [names(training_of(ours(), environments(6, 8), compiled), "data") for compiled in (False, True)]
    assert len(found[0]) > 0
    assert not set(found[0].values()) & set(found[1].values())


def test_without_a_compiler_the_error_says_so(tmp_path):
    command = [sys.executable, "-m", "invariance", "train", "two-bit", "erm", "--set", "recipe.compile=true"]
    bare = {name: value for name, value in os.environ.items() if name != "CXX"} | {"PATH": str(tmp_path)}
    run = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False)
    assert run.returncode
    assert f"recipe.compile needs a C++ compiler, and there is no '{CXX}'" in run.stderr.replace("\n", " ")
    assert "Traceback" not in run.stderr


def test_the_field_is_not_named_in_stored_runs_at_its_default():
    assert "compile" not in dumped(recipe("short"))
    assert dumped(recipe("short", changes={"compile": True}))["compile"] is True
