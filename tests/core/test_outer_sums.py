import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from invariance.core.outer_sums import outer_sums
from invariance.core.seeding import generator

powers = pytest.mark.parametrize("power", [1, 2])


def plain(a: Tensor, b: Tensor, environments: int, power: int) -> Tensor:
    each = (environments, -1)
    return a.unflatten(0, each).mT @ (b.square() if power == 2 else b).unflatten(0, each)


def drawn(rows: int, p: int, q: int) -> tuple[Tensor, Tensor]:
    """Residuals, and features that are zero in half of the entries."""
    random = generator(0)
    return torch.randn(rows, p, generator=random), torch.randn(rows, q, generator=random).relu()


@powers
@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
def test_sums_and_gradients_are_those_of_autograd_bit_for_bit(power, p, wanted):
    a, b = (v.requires_grad_(needed) for v, needed in zip(drawn(512, p, 39), wanted, strict=True))
    moving = [v for v in (a, b) if v.requires_grad]
    found = []
    for sums in (outer_sums, plain):
        value = sums(a, b, 2, power)
        found.append([value, *torch.autograd.grad(value.square().sum(), moving)])
    assert all(torch.equal(ours, other) for ours, other in zip(*found, strict=True))


@powers
def test_other_gradients_are_added_in_place(power):
    """Of large features a sum with memory of its own would be one more piece as large."""
    a, leaf = drawn(64, 1, 7)
    features = leaf.requires_grad_() * 1.0
    loss = features.sum() + outer_sums(a, features, 2, power).square().sum()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
        loss.backward()
    added = [event.name for event in seen.events() if event.input_shapes[:2] == [[64, 7], [64, 7]]]
    assert "aten::add_" in added
    assert "aten::add" not in added


@powers
def test_transforms_of_functions_go_through(power):
    a, b = drawn(6, 2, 3)

    def loss(b: Tensor) -> Tensor:
        return outer_sums(a, b, 2, power).square().sum()

    b.requires_grad_()
    (expected,) = torch.autograd.grad(loss(b), b)
    torch.testing.assert_close(torch.func.grad(loss)(b.detach()), expected)
