import pytest
import torch
from torch import Tensor
from torch.autograd.functional import hessian
from torch.func import functional_call

from invariance.core.batch import Batch
from invariance.core.families import Bernoulli, Categorical, Family, Gaussian
from invariance.core.seeding import generator
from invariance.methods.heads import hessians_at, vector
from invariance.methods.irmv0 import IRMv0
from invariance.models.base import Model
from invariance.recipes.schedules import Clock

pytestmark = pytest.mark.usefixtures("double")
BEFORE, AFTER = Clock(0, 10, 5), Clock(5, 10, 5)
METHOD = IRMv0(gamma=3.0, head_steps=40)
every_head = pytest.mark.parametrize("deep", [False, True], ids=["linear", "deep"])
every_family = pytest.mark.parametrize(
    "family", [Bernoulli(), Gaussian(), Categorical(3)], ids=lambda f: type(f).__name__
)


@pytest.fixture
def set_up(environments, smooth):
    def make(family: Family, deep: bool) -> tuple[Batch, Model, Tensor]:
        batch = Batch.of(environments(5, 7, 4, inputs=3, family=family), family)
        model = smooth(3, 3, family.outputs, deep=deep)
        return batch, model, model.features(batch.x).detach()

    return make


def risk(batch: Batch, model: Model, e: int, z: Tensor, w: Tensor) -> Tensor:
    """R^e of the head with parameters w, with nothing but the head itself."""
    parts, at = {}, 0
    for name, p in model.head.named_parameters():
        parts[name] = w[at : at + p.numel()].view_as(p)
        at += p.numel()
    return batch.only(e).loss(functional_call(model.head, parts, (z[batch.rows(e)],))).mean()


def hessians(batch: Batch, model: Model, z: Tensor) -> list[Tensor]:
    w = vector(model.head).detach()
    return [hessian(lambda w, e=e: risk(batch, model, e, z, w), w) for e in range(batch.environments)]


def objective(batch: Batch, model: Model, z: Tensor, w: Tensor) -> Tensor:
    """Φ(w), by autograd."""
    w = w if w.requires_grad else w.detach().requires_grad_()
    risks = [risk(batch, model, e, z, w) for e in range(batch.environments)]
    squares = [torch.autograd.grad(r, w, create_graph=True)[0].square().sum() for r in risks]
    return torch.stack(risks).mean() + METHOD.gamma * torch.stack(squares).mean()


@every_family
@every_head
def test_hessians_are_those_of_autograd(set_up, family, deep):
    batch, model, z = set_up(family, deep)
    w = vector(model.head).detach()
    v = torch.randn(batch.environments, len(w), generator=generator(1))
    slow = torch.stack([h @ v_e for h, v_e in zip(hessians(batch, model, z), v, strict=True)])
    torch.testing.assert_close(hessians_at(batch, model.head, z, w)(v), slow)


@every_family
@every_head
def test_the_heads_step_is_its_formula(set_up, family, deep):
    batch, model, z = set_up(family, deep)
    w = vector(model.head).detach()
    h = torch.stack(hessians(batch, model, z))
    start = w.clone().requires_grad_()
    d = -torch.autograd.grad(objective(batch, model, z, start), start)[0]
    b = h.mean(0) + 2 * METHOD.gamma * (h @ h).mean(0)
    damped = b + METHOD.damping * (d @ b @ d) / (d @ d) * torch.eye(len(d))
    torch.testing.assert_close(METHOD.head_step(batch, model, z, AFTER), w + torch.linalg.solve(damped, d))


def test_without_damping_the_step_goes_to_the_minimum_for_squared_errors(set_up):
    batch, model, z = set_up(Gaussian(), deep=False)
    end = IRMv0(gamma=3.0, head_steps=40, damping=1e-12).head_step(batch, model, z, AFTER)
    slope = torch.autograd.grad(objective(batch, model, z, end), end)[0]
    torch.testing.assert_close(slope, torch.zeros_like(slope))


@pytest.mark.parametrize("steps", [1, 5])
def test_a_few_steps_already_go_down(set_up, steps):
    batch, model, z = set_up(Bernoulli(), deep=False)
    end = IRMv0(gamma=3.0, head_steps=steps).head_step(batch, model, z, AFTER)
    assert objective(batch, model, z, end) < objective(batch, model, z, vector(model.head))


def test_a_head_without_a_slope_stays(set_up):
    batch, model, z = set_up(Gaussian(), deep=False)
    at_rest = Batch(batch.x, model.head(z).detach().squeeze(1), batch.counts, Gaussian())
    torch.testing.assert_close(METHOD.head_step(at_rest, model, z, AFTER), vector(model.head))


def test_features_move_at_the_new_head_which_is_kept_for_the_next_update(set_up):
    batch, model, z = set_up(Bernoulli(), deep=False)
    w = METHOD.head_step(batch, model, z, AFTER)
    moves = METHOD.moves(model, batch, AFTER, generator(0))
    move = next(moves)
    assert move.players == ("features",)
    torch.testing.assert_close(move.loss(), objective(batch, model, z, w) / METHOD.gamma)
    assert next(moves, None) is None
    torch.testing.assert_close(vector(model.head), w)


@pytest.mark.parametrize(
    ("method", "clock"), [(IRMv0(gamma=3.0), AFTER), (IRMv0(gamma_before=0.0, head_steps=5), BEFORE)]
)
def test_otherwise_all_move_together(set_up, method, clock):
    batch, model, _ = set_up(Bernoulli(), deep=False)
    moves = list(method.moves(model, batch, clock, generator(0)))
    assert [move.players for move in moves] == [()]
