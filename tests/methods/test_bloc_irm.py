import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from invariance.core.batch import Batch
from invariance.core.families import Categorical
from invariance.core.seeding import generator
from invariance.methods.bloc_irm import BLOCIRM
from invariance.methods.fishr import Fishr
from invariance.methods.irmv0 import IRMv0
from invariance.methods.irmv1 import IRMv1
from invariance.methods.rex import REx
from invariance.models.base import Model
from invariance.recipes.schedules import Clock

pytestmark = pytest.mark.usefixtures("double")
AFTER = Clock(5, 10, 5)
both_heads = pytest.mark.parametrize("deep", [False, True], ids=["linear", "deep"])


def bloc(**changes: object) -> BLOCIRM:
    """γ and η of a size at which every term matters."""
    return BLOCIRM(**{"gamma": 3.0, "divide_by": "nothing", "inner_lr": 0.5} | changes)


def consensus(objective: BLOCIRM, model: Model, batch: Batch) -> Tensor:
    w, _ = objective.lower(batch, model, model.features(batch.x))
    return w


def head_gradient(model: Model, batch: Batch, w: Tensor, e: int) -> Tensor:
    """∇_w R^e at w, with nothing but autograd."""
    kept = parameters_to_vector(model.head.parameters()).detach().clone()
    vector_to_parameters(w.detach().clone(), model.head.parameters())
    own = batch.only(e)
    risk = own.loss(model.head(model.features(own.x).detach())).mean()
    found = torch.cat([g.flatten() for g in torch.autograd.grad(risk, list(model.head.parameters()))])
    vector_to_parameters(kept, model.head.parameters())
    return found


def set_head(model: Model, w: Tensor) -> None:
    vector_to_parameters(w.detach().clone(), model.head.parameters())


def move_of(objective: BLOCIRM, model: Model, batch: Batch):
    return next(objective.moves(model, batch, AFTER, generator(0)))


def by_theta(value: Tensor, model: Model) -> Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(value, list(model.features.parameters()))])


def finite_differences(value, model: Model, h: float = 1e-5) -> Tensor:
    """Central differences of ``value()`` by every entry of θ."""
    theta = parameters_to_vector(model.features.parameters()).detach().clone()
    found = torch.zeros_like(theta)
    for i in range(len(theta)):
        ends = []
        for sign in (1, -1):
            moved = theta.clone()
            moved[i] += sign * h
            vector_to_parameters(moved, model.features.parameters())
            ends.append(value().detach())
        found[i] = (ends[0] - ends[1]) / (2 * h)
    vector_to_parameters(theta, model.features.parameters())
    return found


# The lower level


@both_heads
def test_with_one_plain_step_the_consensus_is_a_step_on_the_mean_risk(batch, smooth, deep):
    model = smooth(deep=deep)
    risk = batch.risks(model(batch.x)).mean()
    g = torch.cat([g.flatten() for g in torch.autograd.grad(risk, list(model.head.parameters()))])
    expected = parameters_to_vector(model.head.parameters()) - 0.5 * g
    torch.testing.assert_close(consensus(bloc(), model, batch), expected, rtol=0, atol=1e-13)


@both_heads
def test_several_steps_are_a_loop_over_heads(environments, smooth, deep):
    family = Categorical(3)
    batch = Batch.of(environments(5, 6, 4, family=family), family)
    model = smooth(outputs=3, deep=deep)
    start = parameters_to_vector(model.head.parameters()).detach()
    heads = []
    for e in range(3):
        w = start.clone()
        for _ in range(3):
            w = w - 0.5 * head_gradient(model, batch, w, e)
        heads.append(w)
    found = consensus(bloc(inner_steps=3), model, batch)
    torch.testing.assert_close(found, torch.stack(heads).mean(0), rtol=0, atol=1e-12)


@both_heads
@pytest.mark.parametrize("inner_steps", [1, 2])
def test_adam_heads_are_one_adam_an_environment_averaged(batch, smooth, deep, inner_steps):
    """Over two steps of training, so that moments are kept between them."""
    objective = bloc(inner_optimiser="adam", inner_steps=inner_steps, inner_lr=0.1)
    model = objective.prepare(smooth(deep=deep), 3, generator(0))
    w = parameters_to_vector(model.head.parameters()).detach().clone()
    heads = [nn.Parameter(w.clone()) for _ in range(3)]
    adams = [torch.optim.Adam([head], lr=0.1) for head in heads]
    for _ in range(2):
        for e, (head, adam) in enumerate(zip(heads, adams, strict=True)):
            head.data.copy_(w)
            for _ in range(inner_steps):
                head.grad = head_gradient(model, batch, head, e)
                adam.step()
        w = torch.stack([head.detach() for head in heads]).mean(0)
        for move in objective.moves(model, batch, AFTER, generator(0)):
            move.loss()
        found = parameters_to_vector(model.head.parameters()).detach()
        torch.testing.assert_close(found, w, rtol=0, atol=1e-6)  # ε stands inside the root here


def test_adam_memory_is_that_of_the_step_not_of_every_evaluation(batch, smooth):
    objective = bloc(inner_optimiser="adam")
    memories = []
    for evaluations in (1, 3):
        model = objective.prepare(smooth(), 3, generator(0))
        for move in objective.moves(model, batch, AFTER, generator(0)):
            for _ in range(evaluations):
                move.loss()
        memories.append(dict(model.memory.named_buffers()))
    assert float(memories[0]["steps"]) == 1
    assert float(memories[0]["second"].min()) > 0
    torch.testing.assert_close(*memories, rtol=0, atol=0)


# The upper level


@both_heads
@pytest.mark.parametrize(
    "changes",
    [{}, {"inner_steps": 2}, {"inner_optimiser": "adam"}, {"estimator": "split"}, {"penalty": "fishr"}],
    ids=str,
)
def test_the_gradient_goes_through_the_unrolled_step(batch, smooth, changes, deep):
    objective = bloc(**changes)
    model = objective.prepare(smooth(deep=deep), 3, generator(0))
    move = move_of(objective, model, batch)
    expected = finite_differences(move.loss, model)
    torch.testing.assert_close(by_theta(move.loss(), model), expected, rtol=1e-6, atol=1e-8)


@both_heads
@pytest.mark.parametrize("changes", [{}, {"inner_steps": 2}, {"penalty": "irmv1"}, {"estimator": "split"}], ids=str)
def test_without_unrolling_the_gradient_is_the_partial_one_at_the_consensus(batch, smooth, changes, deep):
    model = smooth(deep=deep)
    total = by_theta(move_of(bloc(**changes), model, batch).loss(), model)
    objective = bloc(unroll=False, **changes)
    partial = by_theta(move_of(objective, model, batch).loss(), model)
    w = consensus(objective, model, batch).detach().requires_grad_()

    def at_fixed_head() -> Tensor:
        z = model.features(batch.x)
        kept = parameters_to_vector(model.head.parameters()).detach().clone()
        set_head(model, w)
        f = model.head(z)
        penalty = {"stationarity": IRMv0, "irmv1": IRMv1}[objective.penalty](estimator=objective.estimator)
        value = batch.risks(f).mean() + 3 * penalty.penalty(batch, model, z, f)
        set_head(model, kept)
        return value

    torch.testing.assert_close(partial, finite_differences(at_fixed_head, model), rtol=1e-6, atol=1e-8)
    assert (partial - total).norm() > 0.01 * total.norm()


@both_heads
@pytest.mark.parametrize(
    ("changes", "method"),
    [
        ({"penalty": "stationarity"}, IRMv0()),
        ({"penalty": "irmv1"}, IRMv1()),
        ({"penalty": "rex"}, REx()),
        ({"penalty": "fishr"}, Fishr()),
        ({"penalty": "none"}, None),
    ],
)
def test_every_penalty_is_that_method_at_the_consensus(batch, smooth, changes, method, deep):
    objective, model = bloc(**changes), smooth(deep=deep)
    loss = move_of(objective, model, batch).loss()
    assert torch.isfinite(loss)
    set_head(model, consensus(objective, model, batch))
    z = model.features(batch.x)
    f = model.head(z)
    expected = batch.risks(f).mean() + (3 * method.penalty(batch, model, z, f) if method else 0)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-12)


def test_a_few_longer_steps_below_leave_little_that_the_gradients_have_in_common(batch, smooth):
    model = smooth()
    z = model.features(batch.x)

    def common(**changes: object) -> float:
        w = bloc(**changes).lower(batch, model, z)[0]
        return torch.stack([head_gradient(model, batch, w, e) for e in range(batch.environments)]).mean(0).norm().item()

    one_short, one_long, five = common(inner_lr=2e-3), common(inner_lr=0.5), common(inner_lr=0.5, inner_steps=5)
    assert one_short > one_long > 2 * five


@pytest.mark.parametrize("scale", [1, 30, 1000])
def test_limited_steps_below_lower_the_risk_on_features_of_any_scale(batch, smooth, scale):
    model = smooth()
    z = scale * model.features(batch.x)

    def risk(w: Tensor) -> float:
        set_head(model, w)
        return batch.risks(model.head(z)).mean().item()

    start = parameters_to_vector(model.head.parameters()).detach().clone()
    found = [risk(bloc(inner_lr=1e9, inner_steps=k, limit_inner_lr=True).lower(batch, model, z)[0]) for k in (1, 5)]
    set_head(model, start)
    assert risk(start) > found[0]
    assert risk(start) > found[1]
    if scale > 1:
        assert risk(bloc(inner_lr=1.0, inner_steps=5).lower(batch, model, z)[0]) > risk(start)


@both_heads
@pytest.mark.parametrize("unroll", [True, False])
def test_after_the_move_the_model_holds_the_consensus_of_where_the_step_began(batch, smooth, unroll, deep):
    objective, model = bloc(unroll=unroll), smooth(deep=deep)
    before = parameters_to_vector(model.head.parameters()).detach().clone()
    expected = consensus(objective, model, batch).detach()
    for move in objective.moves(model, batch, AFTER, generator(0)):
        move.loss()
        assert torch.equal(parameters_to_vector(model.head.parameters()), before)
        with torch.no_grad():  # what a recipe does: evaluate elsewhere, then move θ
            for p in model.features.parameters():
                p.add_(0.3)
        move.loss()
    torch.testing.assert_close(parameters_to_vector(model.head.parameters()).detach(), expected, rtol=0, atol=0)
    assert not torch.equal(expected, before)


def test_only_the_features_are_moved(batch, smooth):
    assert move_of(bloc(), smooth(), batch).players == ("features",)


def test_without_a_weight_before_the_switch_it_is_erm(batch, smooth):
    objective, model = bloc(gamma_before=0.0), smooth()
    (move,) = objective.moves(model, batch, Clock(4, 10, 5), generator(0))
    everything = {id(p) for player in objective.players(model) for p in player.parameters}
    assert move.players == ()
    assert everything == {id(p) for p in model.parameters()}
    torch.testing.assert_close(move.loss(), batch.risks(model(batch.x)).mean())
