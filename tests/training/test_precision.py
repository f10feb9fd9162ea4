"""Features in bf16, everything else in full precision."""

import pytest
import torch
from torch import nn

from invariance.core.catalogue import defaults
from invariance.core.errors import BadValue
from invariance.core.families import Bernoulli
from invariance.core.fields import dumped
from invariance.methods import METHODS
from invariance.methods.irmv1 import IRMv1
from invariance.models.base import Model
from invariance.models.mlp import MLP
from invariance.recipes.presets import recipe
from invariance.recipes.recipe import Recipe
from invariance.training.loop import Training
from invariance.training.train import train


def mlp() -> Model:
    return MLP(width=32).build((3,), 1)


@pytest.mark.parametrize("method", METHODS.classes)
@pytest.mark.parametrize("keep", [0, 65536], ids=["recomputed", "kept"])
def test_a_step_in_bf16_is_near_the_step_in_full_precision(environments, method, keep):
    fields = {"gamma": 10} if "gamma" in defaults(METHODS[method]) else {}
    ends = []
    for precision in ("full", "bf16"):
        how = Recipe(epochs=1, warmup=0.0, lr=0.1, step="sgd", precision=precision)
        model = mlp()
        model.slice, model.keep = (4, keep) if keep == 0 else (model.slice, keep)
        training = Training(model, METHODS.create(method, fields), environments(20, 30), how, Bernoulli(), 0)
        training.advance()
        weights = torch.cat([p.detach().flatten() for p in training.model.parameters()])
        assert weights.dtype == torch.float32
        ends.append((training.loss, weights))
    (loss, weights), (low_loss, low_weights) = ends
    assert low_loss != loss
    assert low_loss == pytest.approx(loss, rel=0.02)
    assert (low_weights - weights).norm() < 0.02 * weights.norm()


def test_only_the_products_of_the_features_are_in_bf16(environments):
    types: list[torch.dtype] = []
    model = mlp()
    for layer in (model.features[1], model.head):
        layer.register_forward_hook(lambda _, x, out: types.extend((x[0].dtype, out.dtype)))
    training = Training(model, IRMv1(), environments(6, 8), Recipe(epochs=2, precision="bf16"), Bernoulli(), 0)
    training.advance()
    assert types == [torch.float32, torch.bfloat16, torch.float32, torch.float32]
    types.clear()
    model.eval()(torch.zeros(2, 3))  # predictions are in full precision
    assert set(types) == {torch.float32}


def test_the_averages_of_a_penalty_are_as_exact_as_without_it(environments):
    """From the same features: outer products of bf16 numbers would be off by one part in 256."""
    how = Recipe(epochs=1, warmup=0.0, precision="bf16")
    training = Training(mlp(), METHODS.create("irmv0"), environments(64, 64), how, Bernoulli(), 0)
    model, batch = training.model, training.data
    z = model.represent(batch.x).detach()
    double = Model(nn.Identity(), nn.Linear(32, 1)).double()
    double.head.load_state_dict({k: v.double() for k, v in model.head.state_dict().items()})
    penalty = METHODS.create("irmv0").penalty
    found, exact = penalty(batch, model, z, model.head(z)), penalty(batch, double, z.double(), double.head(z.double()))
    assert found.item() == pytest.approx(exact.item(), rel=1e-5)


def test_the_field_is_not_named_in_stored_runs_at_its_default():
    assert "precision" not in dumped(recipe("short"))
    assert dumped(recipe("short", changes={"precision": "bf16"}))["precision"] == "bf16"


@pytest.mark.usefixtures("double")
def test_numbers_of_64_bits_are_refused(environments):
    with pytest.raises(BadValue, match="precision is bf16 and the model has 64-bit weights"):
        next(train(mlp(), IRMv1(), environments(6, 8), Recipe(precision="bf16"), family=Bernoulli()))
