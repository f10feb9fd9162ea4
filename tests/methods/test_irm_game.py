from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import nn

from invariance.core.batch import Batch
from invariance.core.environment import Environment
from invariance.core.errors import BadValue
from invariance.core.families import Bernoulli, Categorical, Gaussian
from invariance.core.homogeneity import homogeneity
from invariance.core.seeding import generator
from invariance.data import DATA
from invariance.evaluation.scores import evaluate
from invariance.methods.heads import preconditioned
from invariance.methods.irm_game import Ensemble, IRMGame
from invariance.methods.profile import profile
from invariance.models import MODELS
from invariance.models.base import Model, linear
from invariance.recipes.optimiser import SGD
from invariance.recipes.recipe import Recipe
from invariance.recipes.schedules import Clock
from invariance.training.loop import Training
from invariance.training.train import train

pytestmark = pytest.mark.usefixtures("double")
both_heads = pytest.mark.parametrize("deep", [False, True], ids=["linear", "deep"])
AFTER = Clock(5, 10, 5)


def test_the_representation_moves_first_and_then_every_head(batch, smooth):
    model = IRMGame().prepare(smooth(), 3, generator(0))
    moves = list(IRMGame().moves(model, batch, AFTER, generator(0)))
    assert [move.players for move in moves] == [("features",), ("head 2",), ("head 1",), ("head 0",)]


def test_players_own_everything_once(smooth):
    model = IRMGame().prepare(smooth(), 3, generator(0))
    players = IRMGame().players(model)
    owned = [id(p) for player in players for p in player.parameters]
    assert sorted(owned) == sorted(map(id, model.parameters()))


@both_heads
def test_the_ensemble_is_the_mean_of_its_heads(batch, smooth, deep):
    z = torch.randn(7, 4, generator=generator(0))
    heads = [smooth(seed=e, outputs=2, deep=deep).head for e in range(3)]
    torch.testing.assert_close(Ensemble(heads)(z), sum(head(z) for head in heads) / 3)


def test_heads_need_no_bias(batch, smooth):
    model = Model(smooth().features, nn.Linear(4, 1, bias=False))
    model = IRMGame().prepare(model, 3, generator(0))
    expected = sum(head(model.features(batch.x)) for head in model.head.heads) / 3
    torch.testing.assert_close(model(batch.x), expected)


def test_heads_start_apart(smooth):
    model = IRMGame().prepare(smooth(), 3, generator(0))
    first, second, third = (head.weight for head in model.head.heads)
    assert not torch.equal(first, second)
    assert not torch.equal(second, third)


@both_heads
def test_every_head_goes_down_on_its_own_risk_alone(environments, smooth, deep):
    """One round of the training loop, against the round written out."""
    lr, made = 0.3, environments(5, 6, 4)
    recipe = Recipe(lr=lr, epochs=10, step=SGD(momentum=0))
    training = Training(smooth(deep=deep), IRMGame(feature_rate=0.1), made, recipe, Bernoulli(), seed=0)
    slow, batch = deepcopy(training.model), training.data
    training.advance()

    def step(parameters, risk, lr):
        parameters = list(parameters)
        for p, g in zip(parameters, torch.autograd.grad(risk, parameters), strict=True):
            p.data -= lr * g

    step(slow.features.parameters(), batch.risks(slow(batch.x)).mean(), 0.1 * lr)
    for e, head in reversed(list(enumerate(slow.head.heads))):
        own = batch.only(e)
        step(head.parameters(), own.loss(slow(own.x)).mean(), lr)
    for (name, p), q in zip(training.model.named_parameters(), slow.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=1e-12, msg=lambda m, name=name: f"{name}: {m}")


def test_a_heads_loss_does_not_see_other_environments(environments, smooth):
    model = IRMGame().prepare(smooth(), 3, generator(0))
    losses = []
    for others in (1.0, 2.0):
        a, b, c = environments(5, 6, 4)
        batch = Batch(
            torch.cat([a.x * others, b.x, c.x * others]), torch.cat([a.y, b.y, c.y]).double(), (5, 6, 4), Bernoulli()
        )
        _, *heads = IRMGame().moves(model, batch, AFTER, generator(0))
        losses.append([move.loss().item() for move in heads])
    assert losses[0][1] == losses[1][1]
    assert losses[0][0] != losses[1][0]
    assert losses[0][2] != losses[1][2]


# Who moves, and how far


def parameters(model: Model, part: str) -> list[torch.Tensor]:
    return [p.detach().clone() for name, p in model.named_parameters() if name.startswith(part)]


def after_updates(environments, smooth, updates: int, method: IRMGame, **recipe) -> Training:
    recipe = Recipe(**{"lr": 0.3, "epochs": 10, "warmup": 0.0, "step": SGD(momentum=0), **recipe})
    training = Training(smooth(), method, environments(5, 6, 4), recipe, Bernoulli(), seed=0)
    for _ in range(updates):
        training.advance()
    return training


def test_in_turns_one_player_moves_per_update(batch, smooth):
    game = IRMGame(order="turns")
    model = game.prepare(smooth(), 3, generator(0))
    turns = [[move.players for move in game.moves(model, batch, Clock(t, 10, 5), generator(0))] for t in range(5)]
    assert turns == [[("features",)], [("head 2",)], [("head 1",)], [("head 0",)], [("features",)]]


def test_turns_begin_at_the_switch_where_the_warm_up_is_erm(batch, smooth):
    game = IRMGame(order="turns", warm_up="erm", feature_rate=0.0)
    model = game.prepare(smooth(), 3, generator(0))
    turns = [[move.players for move in game.moves(model, batch, Clock(t, 10, 4), generator(0))] for t in range(3, 8)]
    assert turns == [[()], [("head 2",)], [("head 1",)], [("head 0",)], [("head 2",)]]


def test_features_without_a_rate_stay(environments, smooth):
    start = after_updates(environments, smooth, 0, IRMGame(feature_rate=0.0))
    end = after_updates(environments, smooth, 3, IRMGame(feature_rate=0.0))
    assert all(map(torch.equal, parameters(start.model, "features"), parameters(end.model, "features")))
    assert not any(map(torch.equal, parameters(start.model, "head"), parameters(end.model, "head")))


def test_a_warm_up_of_erm_is_descent_of_all_players_on_the_mean_risk(environments, smooth):
    training = after_updates(environments, smooth, 0, IRMGame(warm_up="erm"), warmup=0.5)
    slow, batch = deepcopy(training.model), training.data
    training.advance()
    risk = batch.risks(slow(batch.x)).mean()
    for p, g, moved in zip(
        slow.parameters(), torch.autograd.grad(risk, list(slow.parameters())), training.model.parameters(), strict=True
    ):
        torch.testing.assert_close(moved, p - 0.3 * g, rtol=0, atol=1e-12)


@pytest.mark.parametrize("order", ["round", "turns"])
def test_a_round_of_small_steps_moves_the_ensemble_as_erm_does(environments, smooth, order):
    """Twice as small steps differ from it four times less."""
    differences = []
    for lr in (1e-2, 5e-3):
        game = IRMGame(feature_rate=0.0, order=order)
        training = after_updates(environments, smooth, 0, game, lr=lr)
        z, ensemble = training.model.features(training.data.x), training.model.head

        def mean_head(ensemble=ensemble) -> torch.Tensor:
            return torch.cat([torch.stack([h.weight[0] for h in ensemble.heads]).mean(0), ensemble.heads[0].bias[:0]])

        w, bias = mean_head().detach().requires_grad_(), torch.stack([h.bias for h in ensemble.heads]).mean(0).detach()
        (g,) = torch.autograd.grad(training.data.risks((z @ w + bias).unsqueeze(1)).sum(), w)
        for _ in range(3 if order == "turns" else 1):
            training.advance()
        differences.append((mean_head() - (w - lr / 9 * g)).norm().item())  # every head has a third of the ensemble
    assert differences[0] / differences[1] == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize("family", [Bernoulli(), Categorical(3)], ids=["two classes", "three classes"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_step_in_the_bound_of_the_curvature_solves_the_whole_system(environments, family, bias):
    batch = Batch.of(environments(5, 6, 4, family=family), family)
    head = nn.Linear(3, family.outputs, bias=bias)
    z1 = torch.cat([batch.x, torch.ones(15, 1)], 1) if bias else batch.x
    bound = family.curvature * batch.mean(z1[:, :, None] * z1[:, None]).mean(0)
    bound += 0.5 * bound.diagonal().mean() * torch.eye(len(bound))
    g = torch.randn(family.outputs, z1.shape[1], generator=generator(0))
    flat = torch.cat([g[:, :3].flatten(), g[:, 3:].flatten()])
    expected = torch.stack([torch.linalg.solve(bound, each) for each in g])
    found = preconditioned(batch, head, batch.x, flat, 0.5)
    torch.testing.assert_close(found, torch.cat([expected[:, :3].flatten(), expected[:, 3:].flatten()]))


def test_the_bound_is_not_below_the_curvature_of_any_risk(environments, smooth):
    batch = Batch.of(environments(40), Bernoulli())
    head = nn.Linear(3, 1)

    def risk(w):
        return batch.risks(batch.x @ w[:3, None] + w[3]).mean()

    hessian = torch.autograd.functional.hessian(risk, torch.randn(4, generator=generator(1)))
    columns = [preconditioned(batch, head, batch.x, column, 1e-12) for column in torch.eye(4)]
    assert torch.linalg.eigvals(torch.stack(columns) @ hessian).real.max() <= 1


def regression(relaxation: float) -> tuple[Training, list[float]]:
    """Two environments with the same inputs, and the gradients of the last one's risk by its head after it moved."""
    x = torch.randn(30, 3, generator=generator(0))
    made = [Environment(name, x, x @ torch.tensor([1.0, cue, 0.0])) for name, cue in (("a", 1.0), ("b", 2.0))]
    game = IRMGame(order="turns", feature_rate=0.0, relaxation=relaxation, damping=1e-9)
    model = Model(linear(3, 3, generator(1)), linear(3, 1, generator(2)))
    training = Training(model, game, made, Recipe(warmup=0.0, epochs=4), Gaussian(), seed=0)
    training.advance()
    own = training.data.only(1)
    training.model.zero_grad()
    own.risks(training.model(own.x)).mean().backward()
    head = training.model.head.heads[1]
    return training, [*head.weight.grad.flatten().tolist(), *head.bias.grad.tolist()]


def test_a_relaxation_of_one_is_the_best_response_where_the_loss_is_quadratic():
    assert regression(1.0)[1] == pytest.approx([0.0] * 4, abs=1e-6)
    assert max(map(abs, regression(1.5)[1])) > 1e-3


def test_longer_steps_than_two_are_not_taken_where_they_would_diverge():
    two, five = regression(2.0)[0].model, regression(5.0)[0].model
    assert all(map(torch.equal, parameters(two, ""), parameters(five, "")))


def test_a_relaxed_head_moves_by_its_own_step_alone(environments, smooth):
    game = IRMGame(order="turns", feature_rate=0.0, relaxation=3.0, l2=0.1)
    fast, slow = (after_updates(environments, smooth, 2, game, lr=lr).model for lr in (10.0, 0.1))
    assert all(map(torch.equal, fast.parameters(), slow.parameters()))


def test_relaxation_needs_a_linear_head(smooth):
    with pytest.raises(BadValue, match=r"needs a linear head; set method\.relaxation=null"):
        IRMGame(relaxation=5.0).prepare(smooth(deep=True), 2, generator(0))


# The stopping rule


def steps_done(environments, smooth, stop_below: float | None, warmup: float = 0.4) -> int:
    made = environments(20, 20)  # labels are coin flips: nothing predicts them all
    recipe = Recipe(epochs=10, warmup=warmup, lr=1e-3)
    *_, last = train(smooth(), IRMGame(stop_below=stop_below), made, recipe, family=Bernoulli())
    return last.step


def test_the_game_stops_at_the_first_low_accuracy_after_the_warm_up(environments, smooth):
    assert steps_done(environments, smooth, stop_below=1.0) == 5  # update 4 is the first one annealed


@pytest.mark.parametrize("stop_below", [None, 0.0])
def test_the_game_goes_on_without_a_threshold_or_above_it(environments, smooth, stop_below):
    assert steps_done(environments, smooth, stop_below) == 10


def test_accuracy_at_the_threshold_does_not_stop_the_game(batch, smooth):
    model = IRMGame().prepare(smooth(), 3, generator(0))
    accuracy = float(Bernoulli().score(model(batch.x), batch.y).mean())
    assert 0 < accuracy < 1
    assert not IRMGame(stop_below=accuracy).done(model, batch, AFTER)
    assert IRMGame(stop_below=accuracy + 1e-6).done(model, batch, AFTER)
    assert not IRMGame(stop_below=accuracy + 1e-6).done(model, batch, Clock(4, 10, 5))


def told_apart(batch, smooth) -> tuple[Model, Batch, float]:
    """A model, samples on which no constant is as good, and the p-value of their homogeneity test."""
    model = IRMGame(stop_at=0.5).prepare(smooth(), 3, generator(0))
    model.head.heads[0].bias.data -= 3 * model(batch.x).detach().median()  # the ensemble's outputs have both signs
    f = model(batch.x).detach()
    return (
        model,
        replace(batch, y=(f.squeeze(1) > 0).double()),
        homogeneity(f, replace(batch, y=(f > 0)[:, 0].double())),
    )


def test_the_game_stops_where_nothing_tells_the_environments_apart(batch, smooth):
    model, samples, p_value = told_apart(batch, smooth)
    assert 0 < p_value < 1
    assert IRMGame(stop_at=p_value).done(model, samples, AFTER)
    assert not IRMGame(stop_at=p_value + 1e-6).done(model, samples, AFTER)
    assert not IRMGame(stop_at=p_value).done(model, samples, Clock(4, 10, 5))


def test_a_game_that_does_not_stop_ends_with_the_heads_that_were_told_apart_least(batch, smooth):
    model, samples, p_value = told_apart(batch, smooth)
    best, game = parameters(model, "head"), IRMGame(stop_at=1.0)
    assert not game.done(model, samples, AFTER)
    for head in model.head.heads:
        head.weight.data += 5.0
    assert homogeneity(model(batch.x).detach(), samples) < p_value
    worse = parameters(model, "head")
    assert not game.done(model, samples, Clock(6, 10, 5))
    assert all(map(torch.equal, parameters(model, "head"), worse))
    assert not game.done(model, samples, Clock(9, 10, 5))
    assert all(map(torch.equal, parameters(model, "head"), best))


def test_a_constant_does_not_stop_the_game(batch, smooth):
    model = IRMGame(stop_at=0.0).prepare(smooth(), 3, generator(0))
    for head in model.head.heads:
        nn.init.zeros_(head.weight)
    assert not IRMGame(stop_at=0.1).done(model, batch, AFTER)


def lowest_gap(relaxation: float) -> float:
    """Over the states of a game on two bits, after ERM has learned to rely on the spurious one."""
    changes = {
        "method": {"relaxation": relaxation, "damping": 0.01, "stop_at": None},
        "recipe": {"dropout": 0.0, "lr": 1e-2},
    }
    game, recipe = profile("irm-game", "two-phase", changes=changes)
    benchmark = DATA.create("two-bit", {"samples": 4000}).load(0)
    model = MODELS.load({"name": "mlp", "width": 8}).build(benchmark.input_shape, 1)
    states = train(model, game, benchmark.train, recipe, family=benchmark.family, snapshots=1000)
    switch, _ = recipe.updates(8000)
    return min(evaluate(state.model, benchmark).gap for state in states if state.step > switch)


def test_best_responses_stay_with_the_cue_and_longer_steps_swing_past_it():
    assert lowest_gap(1.0) == pytest.approx(0.9)
    assert lowest_gap(5.0) < 0.5
