"""Nothing in training or evaluation assumes tensors on the CPU."""

import pytest
import torch
from torch import Tensor, nn
from torch.ops import aten
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from invariance.core.catalogue import defaults
from invariance.core.device import resolved
from invariance.core.errors import BadValue
from invariance.core.families import Bernoulli
from invariance.core.seeding import generator
from invariance.evaluation.diagnostics import scores_and_diagnostics
from invariance.evaluation.scores import validate
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.methods.bloc_irm import BLOCIRM
from invariance.methods.fishr import Fishr
from invariance.methods.irm_game import IRMGame
from invariance.methods.irmv1 import IRMv1
from invariance.models.base import Model, linear
from invariance.recipes.recipe import Recipe
from invariance.training.loop import Training
from invariance.training.train import train

GPU = torch.device("meta")
METHOD = {
    name: METHODS.create(name, {"gamma": 10} if "gamma" in defaults(cls) else {})
    for name, cls in METHODS.classes.items()
} | {
    "irmv1-split": IRMv1(gamma=10, estimator="split"),
    "fishr-ema": Fishr(gamma=10, ema=0.9),
    "bloc-irm-adam": BLOCIRM(gamma=10, inner_optimiser="adam", inner_steps=2),
    "irm-game-stop": IRMGame(stop_below=0.5),
}
every_method = pytest.mark.parametrize("method", METHOD.values(), ids=METHOD.keys())


class SeparateMemory(TorchDispatchMode):
    """The meta device stands for a GPU: an operation on tensors of both devices is an error, as it is there.

    Numbers that are read from it, and tensors that are copied from it, are ones. Scalars may be on either device.
    """

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        devices = {t.device.type for t in tensors if t.ndim}
        if func is aten._local_scalar_dense.default and args[0].is_meta:
            return torch.ones((), dtype=args[0].dtype).item()
        if func is aten._to_copy.default and args[0].is_meta and kwargs.get("device", GPU).type == "cpu":
            return torch.ones(args[0].shape, dtype=kwargs.get("dtype", args[0].dtype))
        if func is aten.copy_.default and args[1].is_meta and not args[0].is_meta:
            return args[0].fill_(1)
        assert len(devices) < 2 or func is aten.copy_.default, f"{func} of tensors on {' and '.join(sorted(devices))}"
        return func(*args, **kwargs)


def model(device: torch.device) -> Model:
    random = generator(0, "weights")
    features = nn.Sequential(linear(3, 4, random), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(0.1))
    return Model(features, linear(4, 1, random)).to(device)


@every_method
@pytest.mark.parametrize(
    "changes",
    [{"dropout": 0.2, "average": 1.0}, {"batch_size": 8, "gradient": "sam", "step": "lalr"}],
    ids=["full-batch", "batches"],
)
def test_a_step_and_its_measurements_stay_on_the_model_s_device(environments, method: Method, changes):
    made = environments(8, 10)
    recipe = Recipe(**{"epochs": 4, "warmup": 0.0, "step": "sgd"} | changes)  # Adam's fused step knows no meta tensors
    with SeparateMemory():
        training = Training(model(GPU), method, made, recipe, Bernoulli(), 0)
        training.offset_by(torch.zeros(18, 1))
        training.advance()
        assert all(p.is_meta for p in training.model.parameters())
        training.load(training.state())
        training.advance()
        scores_and_diagnostics(training.current(), method, made, Bernoulli())
        validate(training.current(), made, Bernoulli())


def test_debiasing_goes_through_the_cpu_and_back(environments):
    recipe = Recipe(epochs=2, warmup=0.0, step="sgd", debias=1)
    with SeparateMemory():
        *_, last = train(model(GPU), METHOD["env-poe"], environments(20, 30), recipe, family=Bernoulli())
        assert all(p.is_meta for p in last.model.parameters())


def test_tensors_on_two_devices_do_not_meet_unnoticed():
    """Else the tests above could not fail."""
    with SeparateMemory(), pytest.raises(AssertionError, match="cpu and meta"):
        model(GPU).features(torch.zeros(2, 3))


def test_bytes_and_pixels_are_moved_to_the_model_s_device():
    x = torch.randint(256, (4, 3), dtype=torch.uint8, generator=generator(0))
    with SeparateMemory():
        assert model(GPU).eval()(x).is_meta


@pytest.mark.parametrize("name", ["abacus", "cuda:97", "mps" if not torch.backends.mps.is_available() else "xpu"])
def test_a_device_that_is_not_there_is_one_line(name):
    with pytest.raises(BadValue, match=f"device '{name}' is not available; 'cpu' always is") as caught:
        resolved(name)
    assert "\n" not in str(caught.value)


def test_auto_is_the_cpu_where_there_is_no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert resolved("auto") == torch.device("cpu")
