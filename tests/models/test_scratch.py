"""A full batch goes through layers that never change once, and gives what it gave before, bit for bit."""

from copy import deepcopy

import torch
from torch import nn

from invariance.models.base import Model
from invariance.models.scratch import FixedLayer, Scratch, scratch_of


class Halved(FixedLayer):
    """Counts its calls."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Halved.calls += 1
        return x / 2


def network() -> Model:
    torch.manual_seed(0)
    model = Model(nn.Sequential(Halved(), nn.Sequential(Halved(), nn.Linear(3, 4)), nn.Tanh()), nn.Linear(4, 1))
    model.slice = 16
    return model


def steps(model: Model, x: torch.Tensor, scratch: Scratch) -> list[torch.Tensor]:
    """Gradients by all parameters, in two steps."""
    found = []
    for through in (model, lambda x: model.represent(x)):
        with scratch_of(scratch):
            found += torch.autograd.grad(through(x).square().sum(), list(model.parameters()), allow_unused=True)
    return [g for g in found if g is not None]


def test_a_full_batch_goes_through_fixed_layers_once():
    x, model = torch.rand(40, 3), network()
    expected = steps(deepcopy(model), x, Scratch())
    Halved.calls = 0
    own = steps(model, x, Scratch(x))
    assert Halved.calls == 2
    assert all(map(torch.equal, own, expected))


def test_other_inputs_and_layers_with_hooks_go_through_every_layer():
    x, model = torch.rand(40, 3), network()
    scratch, seen = Scratch(x), []
    with scratch_of(scratch):
        model(x)
        assert torch.equal(model(2 * x), deepcopy(model)(2 * x))
    model.features[0].register_forward_hook(lambda layer, inputs, output: seen.append(len(output)))
    steps(model, x, Scratch(x))
    assert sum(seen) == 2 * len(x)


def test_bytes_and_inputs_that_want_a_gradient_are_not_kept():
    assert Scratch(torch.zeros(2, 2, dtype=torch.uint8)).full is None
    assert Scratch(torch.zeros(2, 2, requires_grad=True)).full is None
