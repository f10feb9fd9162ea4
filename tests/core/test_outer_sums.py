import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from invariance.core.outer_sums import outer_sums
from invariance.core.seeding import generator

powers = pytest.mark.parametrize("power", [1, 2])


def plain(a: Tensor, b: Tensor, environments: int, power: int) -> Tensor:
    each = (environments, -1)
    return a.unflatten(0, each).mT @ (b.square() if power == 2 else b).unflatten(0, each)


class Made(TorchDispatchMode):
    """Keeps the tensors of so many entries that get memory of their own."""

    def __init__(self, entries: int) -> None:
        super().__init__()
        self.entries, self.made = entries, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        value = func(*args, **(kwargs or {}))
        there = [place(v) for v in (*tree_leaves((args, kwargs)), *self.made) if isinstance(v, Tensor)]
        if isinstance(value, Tensor) and value.numel() == self.entries and place(value) not in there:
            self.made.append(value)
        return value


def place(v: Tensor) -> int:
    return v.untyped_storage().data_ptr()


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


def test_of_squares_the_gradient_takes_one_piece_of_memory():
    """From autograd it takes four."""
    a, b = drawn(64, 1, 7)
    loss = outer_sums(a, b.requires_grad_(), 2, 2).square().sum()
    with Made(b.numel()) as seen:
        loss.backward()
    assert len(seen.made) == 1


@powers
def test_under_autocast_types_are_those_of_autograd(power):
    a, b = (v.requires_grad_() for v in drawn(64, 1, 7))
    found = []
    for sums in (outer_sums, plain):
        with torch.autocast("cpu", torch.bfloat16):
            value = sums(a, b, 2, power)
        found.append([value, *torch.autograd.grad(value.float().square().sum(), [a, b])])
    assert all(torch.equal(ours, other) for ours, other in zip(*found, strict=True))


@powers
def test_transforms_of_functions_go_through(power):
    a, b = drawn(6, 2, 3)

    def loss(b: Tensor) -> Tensor:
        return outer_sums(a, b, 2, power).square().sum()

    b.requires_grad_()
    (expected,) = torch.autograd.grad(loss(b), b)
    torch.testing.assert_close(torch.func.grad(loss)(b.detach()), expected)
