from copy import deepcopy

import pytest
import torch
from torch import nn

from invariance.core.batch import Batch
from invariance.core.families import Bernoulli
from invariance.core.seeding import generator
from invariance.methods.irm_game import Ensemble, IRMGame
from invariance.models.base import Model
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
    model = IRMGame(feature_rate=0.25).prepare(smooth(), 3, generator(0))
    players = IRMGame(feature_rate=0.25).players(model)
    assert [player.rate for player in players] == [0.25, 1, 1, 1]
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
