import pytest
import torch
from pydantic import ValidationError

from invariance.core.batch import Batch
from invariance.core.families import Bernoulli
from invariance.models.base import Model
from invariance.recipes.gradient import SAM, Plain


@pytest.fixture
def batch(environments) -> Batch:
    return Batch.of(environments(5, 6), Bernoulli())


def loss_of(model: Model, batch: Batch):
    return lambda: batch.risks(model(batch.x)).mean() + batch.risks(model(batch.x)).var()


def by_hand(loss, parameters) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss(), parameters))


def test_plain_fills_the_gradient_and_returns_the_loss(batch, smooth):
    model = smooth()
    parameters, loss = list(model.parameters()), loss_of(model, batch)
    value = Plain()(loss, parameters)
    assert torch.equal(value, loss().detach())
    assert not value.requires_grad
    torch.testing.assert_close([p.grad for p in parameters], by_hand(loss, parameters), rtol=0, atol=0)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("radius", [0.001**0.5, 0.5])
def test_sam_is_the_gradient_a_radius_uphill(batch, smooth, radius):
    model = smooth()
    parameters, loss = list(model.parameters()), loss_of(model, batch)
    SAM(radius=radius)(loss, parameters)
    uphill = smooth()
    here = by_hand(loss, parameters)
    norm = torch.cat([g.flatten() for g in here]).norm()
    with torch.no_grad():
        for p, g in zip(uphill.parameters(), here, strict=True):
            p.add_(radius * g / norm)
    expected = by_hand(loss_of(uphill, batch), list(uphill.parameters()))
    torch.testing.assert_close([p.grad for p in parameters], expected, rtol=0, atol=1e-10)
    assert any((g - h).abs().max() > 1e-4 for g, h in zip(expected, here, strict=True))


def test_sam_puts_every_bit_back(batch, smooth):
    model = smooth()
    before = [p.detach().clone() for p in model.parameters()]
    SAM(radius=0.3)(loss_of(model, batch), list(model.parameters()))
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))


def test_sam_returns_the_loss_where_the_parameters_are(batch, smooth):
    model = smooth()
    loss = loss_of(model, batch)
    assert torch.equal(SAM(radius=1.0)(loss, list(model.parameters())), loss().detach())


def test_sam_moves_only_the_parameters_it_is_given(batch, smooth):
    model = smooth()
    seen = []

    def loss() -> torch.Tensor:
        seen.append((model.head.weight.detach().clone(), model.features[0].weight.detach().clone()))
        return loss_of(model, batch)()

    SAM(radius=0.3)(loss, list(model.head.parameters()))
    (head, features), (head_uphill, features_uphill) = seen
    assert torch.equal(features, features_uphill)
    assert not torch.equal(head, head_uphill)
    assert all(p.grad is None for p in model.features.parameters())
    assert all(p.grad is not None for p in model.head.parameters())


def test_sam_stays_where_there_is_no_slope():
    p = torch.nn.Parameter(torch.zeros(3))
    SAM()(lambda: p.square().sum(), [p])
    assert torch.equal(p.grad, torch.zeros(3))


def test_sam_takes_parameters_the_loss_does_not_use(batch, smooth):
    model, idle = smooth(), torch.nn.Parameter(torch.ones(2))
    SAM()(loss_of(model, batch), [*model.parameters(), idle])
    assert torch.equal(idle, torch.ones(2))
    assert idle.grad is None or not idle.grad.any()


def test_sam_refuses_a_radius_of_zero():
    with pytest.raises(ValidationError):
        SAM(radius=0)
