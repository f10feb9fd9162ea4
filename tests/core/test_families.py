import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from invariance.core.errors import BadValue
from invariance.core.families import Bernoulli, Categorical, Family, Gaussian
from invariance.core.seeding import generator

families = st.one_of(st.just(Bernoulli()), st.just(Gaussian()), st.builds(Categorical, st.integers(2, 5)))
leading = st.sampled_from([(), (3,), (2, 3)])


def draw(family: Family, n: int, leading: tuple[int, ...], seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = generator(seed)
    f = torch.randn(*leading, n, family.outputs, generator=random, dtype=torch.float64) * 3
    if isinstance(family, Gaussian):
        return f, torch.randn(n, generator=random, dtype=torch.float64)
    classes = max(2, family.outputs)
    y = torch.randint(classes, (n,), generator=random)
    return f, y if isinstance(family, Categorical) else y.double()


@given(families, leading, st.integers(1, 5), st.integers(0, 2**31))
def test_residual_is_the_derivative_of_the_loss(family, leading, n, seed):
    f, y = draw(family, n, leading, seed)
    f.requires_grad_()
    loss = family.loss(f, y)
    assert loss.shape == (*leading, n)
    (derivative,) = torch.autograd.grad(loss.sum(), f)
    assert family.residual(f, y).shape == (*leading, n, family.outputs)
    torch.testing.assert_close(family.residual(f, y), derivative, rtol=0, atol=1e-13)


@given(families, leading, st.integers(1, 5), st.integers(0, 2**31))
def test_residual_is_the_derivative_of_the_loss_beside_a_second_expert(family, leading, n, seed):
    f, y = draw(family, n, leading, seed)
    offset = torch.rand(n, family.parameters, generator=generator(seed, "offset"), dtype=torch.float64)
    loss = family.loss(f.requires_grad_(), y, offset)
    (derivative,) = torch.autograd.grad(loss.sum(), f)
    torch.testing.assert_close(family.residual(f, y, offset), derivative, rtol=0, atol=1e-13)


@given(families, st.integers(0, 2**31))
def test_a_second_expert_multiplies_the_likelihood(family, seed):
    f, _ = draw(family, 1, (), seed)
    own = torch.rand(1, family.parameters, generator=generator(seed, "offset"), dtype=torch.float64)
    if isinstance(family, Gaussian):
        y = torch.linspace(-3, 3, 7, dtype=torch.float64)
        second = -own[0, 0] * y + own[0, 1] * y.square() / 2  # −log of the second Gaussian, up to a constant
    else:
        y = torch.arange(family.labels).double() if isinstance(family, Bernoulli) else torch.arange(family.labels)
        second = family.loss(own.expand(len(y), -1), y)
    both, first = family.loss(f.expand(len(y), -1), y, own), family.loss(f.expand(len(y), -1), y)
    difference = both - first - second
    torch.testing.assert_close(difference, difference[:1].expand_as(difference))


@given(families, st.integers(1, 5), st.integers(0, 2**31))
def test_leading_dimensions_are_a_loop(family, n, seed):
    f, y = draw(family, n, (4,), seed)
    for method in (family.loss, family.residual, family.score):
        torch.testing.assert_close(method(f, y), torch.stack([method(g, y) for g in f]))


def test_losses_are_those_of_torch():
    for family, reference in [
        (Bernoulli(), lambda f, y: functional.binary_cross_entropy_with_logits(f[:, 0], y, reduction="none")),
        (Categorical(4), lambda f, y: functional.cross_entropy(f, y, reduction="none")),
        (Gaussian(), lambda f, y: functional.mse_loss(f[:, 0], y, reduction="none") / 2),
    ]:
        f, y = draw(family, 6, (), seed=1)
        torch.testing.assert_close(family.loss(f, y), reference(f, y))


def test_loss_stays_finite_at_extreme_logits():
    for family, f, y in [
        (Bernoulli(), torch.tensor([[1000.0], [-1000.0]]), torch.tensor([0.0, 1.0])),
        (Categorical(2), torch.tensor([[1000.0, -1000.0]]), torch.tensor([1])),
    ]:
        assert torch.isfinite(family.loss(f, y)).all()
        assert torch.isfinite(family.residual(f, y)).all()


def test_predictions_are_scored_by_agreement_or_by_distance():
    f, y = torch.tensor([[2.0], [-1.0], [3.0]]), torch.tensor([1.0, 1.0, 0.0])
    assert Bernoulli().score(f, y).tolist() == [1, 0, 0]
    assert Gaussian().score(f, y).tolist() == [-1, -4, -9]
    f, y = torch.tensor([[2.0, 0, 0], [0, 1, 3]]), torch.tensor([0, 1])
    assert Categorical(3).predict(f).tolist() == [0, 2]
    assert Categorical(3).score(f, y).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("family", "label", "shown"),
    [
        (Bernoulli(), 2, "label 2 is outside the classes 0 to 1"),
        (Bernoulli(), -1, "label -1 "),
        (Bernoulli(), 0.5, "label 0.5 "),
        (Bernoulli(), float("nan"), "label nan "),
        (Categorical(3), 3, "label 3 is outside the classes 0 to 2"),
        (Categorical(3), 1.5, "label 1.5 "),
        (Gaussian(), float("inf"), "not a finite number"),
        (Gaussian(), float("nan"), "not a finite number"),
    ],
)
def test_targets_that_are_none_are_refused_in_one_line(family, label, shown):
    with pytest.raises(BadValue) as caught:
        family.check(torch.tensor([0, 1, label]), "environment 'ward 3'")
    message = str(caught.value)
    assert message.startswith("environment 'ward 3': ")
    assert shown in message
    assert "\n" not in message


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
@pytest.mark.parametrize("family", [Bernoulli(), Categorical(2)], ids=["bernoulli", "categorical"])
def test_labels_of_any_type_are_taken(family, dtype):
    y = torch.tensor([0, 1, 1]).to(dtype)
    checked = family.check(y, "here")
    assert checked.tolist() == [0, 1, 1]
    assert family.loss(torch.zeros(3, family.outputs), checked).shape == (3,)


@given(family=families, seed=st.integers(0, 99))
def test_no_second_derivative_of_the_loss_is_above_the_curvature(family, seed):
    f, y = draw(family, 1, (), seed)
    hessian = torch.autograd.functional.hessian(lambda v: family.loss(v[None], y)[0], f[0])
    assert torch.linalg.eigvalsh(hessian)[-1] <= family.curvature + 1e-12
