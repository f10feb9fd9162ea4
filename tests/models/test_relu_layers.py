"""Layers as one operation give what they give one by one, bit for bit."""

import gc
from copy import deepcopy

import pytest
import torch
from torch import nn

from invariance.core.inputs import Pixels
from invariance.core.seeding import generator
from invariance.models.base import Model, linear
from invariance.models.mlp import MLP
from invariance.models.scratch import Scratch, scratch_of


def pair(depth=2, outputs=1):
    """The same network twice: as one operation, and layer by layer."""
    fused = MLP(width=9, depth=depth).build((2, 3), outputs, seed=4).train()
    fused.slice = 16
    plain = Model(nn.Sequential(*deepcopy(fused.features)), deepcopy(fused.head)).train()
    plain.slice = 16
    return fused, plain


def outcome(model, x, through):
    """Values, and gradients by all parameters."""
    model.zero_grad()
    value = model(x) if through == "outputs" else model.represent(x)
    (value * torch.linspace(-1, 1, value.numel()).view_as(value)).sum().backward()
    return value, [p.grad for p in model.parameters()]


@pytest.mark.parametrize("through", ["outputs", "features"])
@pytest.mark.parametrize("rows", [1, 16, 50])
@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("depth", [1, 3])
def test_values_and_gradients_are_those_of_the_layers_bit_for_bit(through, rows, bf16, depth):
    models = pair(depth, outputs=2)
    x = torch.rand(rows, 2, 3)
    for model in models:
        model.bf16 = bf16
    (value, gradients), (expected, slopes) = (outcome(model, x, through) for model in models)
    assert torch.equal(value, expected)
    for own, other in zip(gradients, slopes, strict=True):
        assert own is other is None or torch.equal(own, other)


def test_bytes_in_a_file_go_through_in_slices_as_numbers():
    fused, plain = pair()
    x = (255 * torch.rand(40, 2, 3)).to(torch.uint8)
    (value, gradients), (expected, slopes) = outcome(fused, Pixels.of(x), "outputs"), outcome(plain, x, "outputs")
    assert torch.equal(value, expected)
    assert all(map(torch.equal, gradients, slopes))


def test_memory_is_used_again_only_when_nobody_needs_it():
    fused, plain = pair()
    scratch, x = Scratch(), torch.rand(20, 2, 3)
    with scratch_of(scratch):
        first, second = fused(x), fused(2 * x)  # both wait for their backward pass
        own = [torch.autograd.grad(f.square().sum(), list(fused.parameters())) for f in (first, second)]
        expected = [torch.autograd.grad(plain(s * x).square().sum(), list(plain.parameters())) for s in (1, 2)]
        assert all(map(torch.equal, own[0] + own[1], expected[0] + expected[1]))
        del first, second
        gc.collect()
        there = {t.data_ptr() for tensors in scratch.free.values() for t in tensors}
        fused(x).sum().backward()
    assert there
    assert {t.data_ptr() for tensors in scratch.free.values() for t in tensors} == there


def test_second_derivatives_are_those_of_the_layers():
    def curvature(model):
        x = torch.linspace(-1, 1, 30).view(5, 6)
        parameters = list(model.parameters())
        first = torch.autograd.grad(model(x).square().sum(), parameters, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), parameters)

    fused, plain = pair()
    for own, other in zip(curvature(fused), curvature(plain), strict=True):
        torch.testing.assert_close(own, other)


def test_gradients_by_inputs_and_hooks_are_as_ever():
    fused, plain = pair()
    x = torch.rand(5, 2, 3, requires_grad=True)
    slopes = [torch.autograd.grad(model(x).sum(), x)[0] for model in (fused, plain)]
    assert torch.equal(*slopes)
    seen = []
    fused.features[1].register_forward_hook(lambda module, inputs, output: seen.append(output))
    fused(x.detach())
    assert len(seen) == 1


def test_layers_that_are_frozen_stay_without_a_gradient():
    fused, _ = pair()
    fused.features[1].requires_grad_(False)
    fused(torch.rand(5, 2, 3)).sum().backward()
    assert fused.features[1].weight.grad is None
    assert fused.features[3].weight.grad is not None


def test_a_head_of_another_kind_takes_the_features():
    fused, plain = pair()
    for model in (fused, plain):
        model.head = nn.Sequential(linear(9, 4, generator(1)), nn.Tanh(), linear(4, 1, generator(2)))
    x = torch.rand(40, 2, 3)
    (value, gradients), (expected, slopes) = outcome(fused, x, "outputs"), outcome(plain, x, "outputs")
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradients, slopes)
