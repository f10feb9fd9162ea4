import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import nn
from torch.func import functional_call

from invariance.core.batch import Batch
from invariance.core.families import Bernoulli
from invariance.core.seeding import generator
from invariance.methods.sparse_irm import Masked, SparseIRM, project
from invariance.recipes.gradient import SAM
from invariance.recipes.recipe import Recipe
from invariance.recipes.schedules import Clock
from invariance.training.train import train

scores = st.lists(st.floats(-0.5, 1.5, width=32), min_size=2, max_size=5)


def projected(values: list[float], budget: float) -> np.ndarray:
    """In two tensors, as a network has several."""
    parts = [torch.tensor(values[:1], dtype=torch.float64), torch.tensor(values[1:], dtype=torch.float64)]
    project(parts, budget)
    return torch.cat(parts).numpy()


# The projection


@given(scores, st.floats(0, 1))
def test_projected_scores_are_probabilities_within_the_budget(values, share):
    budget = share * len(values)
    s = projected(values, budget)
    assert s.min() >= 0
    assert s.max() <= 1
    assert s.sum() <= budget + 1e-12


@given(scores, st.floats(0.1, 1))
def test_the_projection_is_the_nearest_point(values, share):
    a, budget = np.array(values), share * len(values)
    solved = minimize(
        lambda s: ((s - a) ** 2).sum(),
        x0=np.full(len(a), min(1.0, share)),
        jac=lambda s: 2 * (s - a),
        bounds=[(0, 1)] * len(a),
        constraints={"type": "ineq", "fun": lambda s: budget - s.sum(), "jac": lambda s: -np.ones(len(a))},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 200},
    )
    np.testing.assert_allclose(projected(values, budget), solved.x, rtol=0, atol=1e-5)


def bisected(parts: list[torch.Tensor], budget: float) -> list[torch.Tensor]:
    """The projection, with a sum for every question of the bisection."""

    def total(v: float) -> float:
        return sum(float((s - v).clamp(0, 1).sum()) for s in parts)

    low, high = 0.0, max(float(s.max()) for s in parts) if total(0.0) > budget else 0.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if total(middle) > budget else (low, middle)
    return [(s - high).clamp(0, 1) for s in parts]


@pytest.mark.parametrize("spread", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("keep", [0.95, 0.5, 0.01])
def test_the_projection_is_that_of_a_plain_bisection_bit_for_bit(spread, keep):
    random = generator(0, spread)
    parts = [1 + spread * torch.randn(shape, generator=random) for shape in ((40, 30), (7,))]
    expected = bisected(parts, keep * 1207)
    project(parts, keep * 1207)
    assert all(torch.equal(s, e) for s, e in zip(parts, expected, strict=True))


def test_scores_within_the_budget_are_left_alone():
    values = [0.25, 1.0, 0.0, 0.5]
    assert projected(values, 1.75).tolist() == values
    assert projected(values, 4.0).tolist() == values


def test_one_threshold_serves_all_tensors():
    assert projected([1.0, 0.2, 0.2], 1.0) == pytest.approx([13 / 15, 1 / 15, 1 / 15], abs=1e-5)


# The schedule


def test_the_budget_falls_as_a_cubic_from_one_to_what_is_kept():
    objective = SparseIRM(keep=0.4, start=0.2, end=0.6)
    budget = [objective.budget(Clock(step, 100, 50)) for step in (0, 19, 20, 30, 40, 59, 60, 99)]
    assert budget[:3] == pytest.approx([1, 1, 1])
    assert budget[3:5] == pytest.approx([0.4 + 0.6 * 0.75**3, 0.4 + 0.6 * 0.5**3])
    assert 0.4 < budget[5] < 0.4001
    assert budget[6:] == pytest.approx([0.4, 0.4])


def test_scores_are_learned_from_the_start_of_the_schedule_on(smooth):
    objective = SparseIRM(start=0.3)
    model = objective.prepare(smooth(), 2, generator(0))
    for step, learned in [(0, False), (29, False), (30, True), (99, True)]:
        objective.before(model, Clock(step, 100, 50), generator(0))
        assert {s.requires_grad for part in (model.features, model.head) for s in part.scores} == {learned}


def test_the_temperature_falls_from_one_to_three_hundredths(smooth):
    objective = SparseIRM()
    model = objective.prepare(smooth(), 2, generator(0))
    for step, temperature in [(0, 1.0), (50, 0.515), (100, 0.03)]:
        objective.before(model, Clock(step, 100, 50), generator(0))
        assert model.features.temperature == model.head.temperature == pytest.approx(temperature)


# Masks


def masked(keep: float = 0.5) -> Masked:
    inner = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    made = Masked(inner)
    with torch.no_grad():
        for s in made.scores:
            s.copy_(torch.rand(s.shape, generator=generator(1)) * 2 * keep)
    return made


def test_weights_have_scores_and_biases_have_none():
    assert [tuple(s.shape) for s in masked().scores] == [(4, 3), (2, 4)]


def test_evaluation_keeps_a_weight_whole_or_not_at_all():
    made = masked().eval()
    x = torch.randn(5, 3, generator=generator(2))
    kept = {
        name: p * (dict(zip(made.names, made.scores, strict=True))[name] > 0.5) if p.ndim > 1 else p
        for name, p in made.inner.named_parameters()
    }
    torch.testing.assert_close(made(x), functional_call(made.inner, kept, (x,)))
    assert 0 < sum(int((s > 0.5).sum()) for s in made.scores) < 20
    made.draw(0.5, generator(3))
    torch.testing.assert_close(made(x), functional_call(made.inner, kept, (x,)))


def test_training_masks_are_relaxed_coins_that_fall_on_one_as_often_as_the_score_says():
    made = Masked(nn.Linear(100, 100)).train()
    (score,) = made.scores
    with torch.no_grad():
        score.fill_(0.3)
    made.draw(0.03, generator(0))
    mask = made.masked(torch.ones_like(score), score, made.get_buffer("noise0")).detach()
    assert mask.min() >= 0
    assert mask.max() <= 1
    assert float((mask > 0.5).float().mean()) == pytest.approx(0.3, abs=4 * (0.21 / 10_000) ** 0.5)


def test_masks_let_the_gradient_through_to_the_scores():
    made = masked()
    made.draw(0.5, generator(0))
    made(torch.ones(2, 3)).sum().backward()
    assert all(float(s.grad.abs().min()) > 0 for s in made.scores)


def test_a_score_of_one_is_an_open_gate(smooth, environments):
    x = environments(4)[0].x
    plain = smooth()(x)
    model = SparseIRM().prepare(smooth(), 2, generator(0)).train()
    SparseIRM().before(model, Clock(0, 10, 5), generator(0))
    torch.testing.assert_close(model(x), plain)


def test_masks_are_drawn_once_a_step(smooth, environments):
    objective = SparseIRM()
    batch = Batch.of(environments(4, 5), Bernoulli())
    model = objective.prepare(smooth(), 2, generator(0)).train()
    with torch.no_grad():
        for part in (model.features, model.head):
            for s in part.scores:
                s.fill_(0.5)
    losses = []
    for step in (6, 7):
        for move in objective.moves(model, batch, Clock(step, 10, 5), generator(0, step)):
            losses.append([move.loss().item(), move.loss().item()])
    assert losses[0][0] == losses[0][1]
    assert losses[1][0] == losses[1][1]
    assert losses[0][0] != losses[1][0]


# A run


def final(environments, smooth, objective: SparseIRM, **recipe: object):
    made = environments(8, 8)
    *_, last = train(smooth(), objective, made, Recipe(epochs=30, lr=1e-2, **recipe), family=Bernoulli())
    return last.model


def test_training_ends_within_the_budget_with_scores_that_differ(environments, smooth):
    model = final(environments, smooth, SparseIRM(keep=0.6, gamma=10))
    kept = torch.cat([s.detach().flatten() for part in (model.features, model.head) for s in part.scores])
    assert float(kept.sum()) <= 0.6 * len(kept) + 1e-5
    assert float(kept.std()) > 0.01


def test_sharpness_aware_gradients_do_not_leave_the_probabilities(environments, smooth):
    model = final(environments, smooth, SparseIRM(), gradient=SAM())
    assert all(torch.isfinite(p).all() for p in model.parameters())
