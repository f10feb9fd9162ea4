"""Every penalty against autograd used the slow and obvious way, in value and in gradient."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from invariance.core.batch import Batch
from invariance.core.environment import Environment
from invariance.core.families import Bernoulli, Categorical, Family, Gaussian
from invariance.core.seeding import generator
from invariance.methods.birm import BIRM
from invariance.methods.bloc_irm import BLOCIRM
from invariance.methods.fishr import Fishr
from invariance.methods.heads import outputs, vector
from invariance.methods.irmv0 import IRMv0
from invariance.methods.irmv1 import IRMv1
from invariance.methods.rex import REx
from invariance.methods.sparse_irm import SparseIRM
from invariance.models.base import Model
from invariance.recipes.schedules import Clock

pytestmark = pytest.mark.usefixtures("double")
BEFORE, AFTER = Clock(0, 10, 5), Clock(5, 10, 5)

families = st.one_of(st.just(Bernoulli()), st.just(Gaussian()), st.builds(Categorical, st.integers(2, 4)))
sizes = st.lists(st.integers(2, 7), min_size=2, max_size=5)
both_estimators = pytest.mark.parametrize("estimator", ["squared", "split"])
both_heads = pytest.mark.parametrize("deep", [False, True], ids=["linear", "deep"])


@dataclass
class Problem:
    family: Family
    counts: list[int]
    width: int
    seed: int

    def set_up(self, environments: Callable, smooth: Callable, deep: bool) -> tuple[Batch, Model]:
        made = environments(*self.counts, inputs=3, family=self.family, seed=self.seed)
        batch = Batch.of(made, self.family)
        batch.x.requires_grad_()
        return batch, smooth(3, self.width, self.family.outputs, seed=self.seed, deep=deep)


problems = st.builds(Problem, families, sizes, st.integers(1, 4), st.integers(0, 2**31))


@pytest.fixture
def set_up(environments, smooth):
    def make(problem: Problem, deep: bool = False) -> tuple[Batch, Model, Tensor, Tensor]:
        batch, model = problem.set_up(environments, smooth, deep)
        z = model.features(batch.x)
        return batch, model, z, model.head(z)

    return make


# The slow way


def loss_of(family: Family, f: Tensor, y: Tensor) -> Tensor:
    """Torch's own losses, so that the families are checked along."""
    match family:
        case Bernoulli():
            return functional.binary_cross_entropy_with_logits(f.squeeze(-1), y)
        case Categorical():
            return functional.cross_entropy(f, y)
        case _:
            return functional.mse_loss(f.squeeze(-1), y) / 2


def each(batch: Batch, z: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Features and targets, environment by environment."""
    return list(zip(z.split(list(batch.counts)), batch.y.split(list(batch.counts)), strict=True))


def norms(estimator: str, parts: list[tuple[Tensor, Tensor]], gradient: Callable[[int, Tensor, Tensor], Tensor]):
    """‖g_e‖² or g_e'·g_e'' of each environment, in a loop."""
    found = []
    for e, (z, y) in enumerate(parts):
        if estimator == "squared":
            found.append(gradient(e, z, y).square().sum())
        else:
            half = (len(z) + 1) // 2
            found.append((gradient(e, z[:half], y[:half]) * gradient(e, z[half:], y[half:])).sum())
    return torch.stack(found)


def by_scale(model: Model, family: Family, c: float) -> Callable[[int, Tensor, Tensor], Tensor]:
    def gradient(e: int, z: Tensor, y: Tensor) -> Tensor:
        scale = torch.tensor(float(c[e] if isinstance(c, Tensor) else c), requires_grad=True)
        risk = loss_of(family, scale * model.head(z), y)
        return torch.autograd.grad(risk, scale, create_graph=True)[0]

    return gradient


def by_head(model: Model, family: Family) -> Callable[[int, Tensor, Tensor], Tensor]:
    def gradient(e: int, z: Tensor, y: Tensor) -> Tensor:
        risk = loss_of(family, model.head(z), y)
        parts = torch.autograd.grad(risk, list(model.head.parameters()), create_graph=True)
        return torch.cat([g.flatten() for g in parts])

    return gradient


def sample_gradients(head: nn.Module, family: Family, z: Tensor, y: Tensor) -> Tensor:
    """∇_w loss of every sample, [n, P]."""

    def loss(w: dict[str, Tensor], z: Tensor, y: Tensor) -> Tensor:
        return loss_of(family, functional_call(head, w, (z.unsqueeze(0),)), y.unsqueeze(0))

    found = vmap(grad(loss), in_dims=(None, 0, 0))(dict(head.named_parameters()), z, y)
    return torch.cat([g.flatten(1) for g in found.values()], dim=1)


def looped_sample_gradients(head: nn.Module, family: Family, z: Tensor, y: Tensor) -> Tensor:
    rows = []
    for i in range(len(y)):
        risk = loss_of(family, head(z[i : i + 1]), y[i : i + 1])
        found = torch.autograd.grad(risk, list(head.parameters()), create_graph=True)
        rows.append(torch.cat([g.flatten() for g in found]))
    return torch.stack(rows)


def spreads(variances: list[Tensor]) -> Tensor:
    """‖v_e − v̄‖² of each environment, in a loop."""
    mean = sum(variances) / len(variances)
    return torch.stack([(v - mean).square().sum() for v in variances])


def assert_same(fast: Tensor, slow: Tensor, batch: Batch, model: Model) -> None:
    """Equal values; equal gradients by the inputs, the features and the head."""
    assert fast.shape == slow.shape == ()
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10)
    leaves = [batch.x, *model.parameters()]
    for_fast, for_slow = (
        torch.autograd.grad(value, leaves, retain_graph=True, allow_unused=True, materialize_grads=True)
        for value in (fast, slow)
    )
    assert sum(float(g.abs().sum()) for g in for_slow) > 0
    torch.testing.assert_close(for_fast, for_slow, rtol=1e-10, atol=1e-10)


# Fast equals slow


@both_heads
@both_estimators
@given(problem=problems)
def test_irmv1_is_the_gradient_by_a_dummy_scale(set_up, problem, estimator, deep):
    batch, model, z, f = set_up(problem, deep)
    slow = norms(estimator, each(batch, z), by_scale(model, problem.family, 1.0)).mean()
    assert_same(IRMv1(estimator=estimator).penalty(batch, model, z, f), slow, batch, model)


@both_heads
@both_estimators
@given(problem=problems)
def test_birm_is_the_gradient_by_a_dummy_scale_at_the_drawn_scales(set_up, problem, estimator, deep):
    batch, model, z, f = set_up(problem, deep)
    objective = BIRM(estimator=estimator, draws=3, tau=0.5)
    objective.prepare(model, batch.environments, generator(0))
    objective.before(model, AFTER, generator(problem.seed, "scales"))
    scales = model.memory.scales
    assert scales.unique().numel() == 3 * batch.environments
    slow = torch.stack([norms(estimator, each(batch, z), by_scale(model, problem.family, c)) for c in scales])
    assert_same(objective.penalty(batch, model, z, f), slow.mean(), batch, model)


@both_heads
@both_estimators
@given(problem=problems)
def test_irmv0_is_the_gradient_by_the_head(set_up, problem, estimator, deep):
    batch, model, z, f = set_up(problem, deep)
    slow = norms(estimator, each(batch, z), by_head(model, problem.family)).mean()
    assert_same(IRMv0(estimator=estimator).penalty(batch, model, z, f), slow, batch, model)


@both_heads
@both_estimators
@given(problem=problems)
def test_bloc_irm_has_irmv0s_stationarity_at_any_head(set_up, problem, estimator, deep):
    batch, model, z, _ = set_up(problem, deep)
    w = vector(model.head)
    objective = BLOCIRM(estimator=estimator)
    slow = norms(estimator, each(batch, z), by_head(model, problem.family)).mean()
    assert_same(objective.upper(batch, model, z, outputs(model.head, w, z), w), slow, batch, model)


@pytest.mark.parametrize("coordinates", ["sum", "mean"])
@given(problem=problems)
def test_fishr_is_the_variance_of_per_sample_gradients(set_up, problem, coordinates):
    batch, model, z, f = set_up(problem)
    h = [sample_gradients(model.head, problem.family, *part) for part in each(batch, z)]
    slow = spreads([g.var(0, correction=0) for g in h]).mean() / (1 if coordinates == "sum" else h[0].shape[1])
    assert_same(Fishr(coordinates=coordinates).penalty(batch, model, z, f), slow, batch, model)


@given(problem=problems)
def test_fishr_of_a_deep_head_is_the_variance_of_per_sample_gradients(set_up, problem):
    batch, model, z, f = set_up(problem, deep=True)
    h = [looped_sample_gradients(model.head, problem.family, *part) for part in each(batch, z)]
    slow = spreads([g.var(0, correction=0) for g in h]).mean()
    assert_same(Fishr().penalty(batch, model, z, f), slow, batch, model)


@pytest.mark.parametrize(
    "objective", [REx(), SparseIRM(penalty_of="rex"), BLOCIRM(penalty="rex")], ids=lambda o: o.title
)
@both_heads
@given(problem=problems)
def test_rex_is_the_variance_of_the_risks(set_up, problem, objective, deep):
    batch, model, z, f = set_up(problem, deep)
    risks = [loss_of(problem.family, model.head(part), y) for part, y in each(batch, z)]
    mean = sum(risks) / len(risks)
    slow = sum((risk - mean) ** 2 for risk in risks) / len(risks)
    fast = (
        objective.upper(batch, model, z, f, vector(model.head))
        if isinstance(objective, BLOCIRM)
        else objective.penalty(batch, model, z, f)
    )
    assert_same(fast, slow, batch, model)


@given(problem=problems)
def test_a_head_without_bias_has_no_bias_gradient(set_up, problem):
    batch, model, z, _ = set_up(problem)
    model.head = nn.Linear(problem.width, problem.family.outputs, bias=False)
    slow = norms("squared", each(batch, z), by_head(model, problem.family)).mean()
    assert_same(IRMv0().penalty(batch, model, z, model.head(z)), slow, batch, model)
    h = [sample_gradients(model.head, problem.family, *part) for part in each(batch, z)]
    slow = spreads([g.var(0, correction=0) for g in h]).mean()
    assert_same(Fishr().penalty(batch, model, z, model.head(z)), slow, batch, model)


# What penalties are


@pytest.mark.parametrize(
    "objective",
    [IRMv1(), IRMv1(estimator="split"), IRMv0(), IRMv0(estimator="split"), REx(), Fishr(), BIRM(draws=2, tau=0.5)],
    ids=lambda o: f"{o.title}-{getattr(o, 'estimator', '')}",
)
@given(problem=problems, order=st.randoms(use_true_random=False))
def test_a_penalty_does_not_depend_on_the_order_of_environments(set_up, problem, order, objective):
    batch, model, z, f = set_up(problem)
    objective.prepare(model, batch.environments, generator(0))
    objective.before(model, AFTER, generator(problem.seed))
    given_order = objective.penalty(batch, model, z, f)
    shuffled = list(range(batch.environments))
    order.shuffle(shuffled)
    if isinstance(objective, BIRM):
        model.memory.scales.copy_(model.memory.scales[:, shuffled].clone())
    rows = torch.cat([torch.arange(len(batch.y))[batch.rows(e)] for e in shuffled])
    permuted = batch.take(rows, tuple(batch.counts[e] for e in shuffled))
    other_order = objective.penalty(permuted, model, z[rows], f[rows])
    torch.testing.assert_close(other_order, given_order, rtol=1e-10, atol=1e-12)


def regression(environments: int) -> tuple[Batch, Tensor]:
    """Environments with different inputs and noise, all with the same least-squares head, and that head [d + 1]."""
    made, head = [], torch.tensor([1.5, -0.5, 0.25])
    for e in range(environments):
        random = generator(e)
        z = torch.randn(9, 2, generator=random) * (1 + e)
        augmented = torch.cat([z, torch.ones(9, 1)], dim=1)
        noise = torch.randn(9, generator=random)
        noise -= augmented @ torch.linalg.lstsq(augmented, noise.unsqueeze(1)).solution.squeeze(1)
        made.append(Environment(str(e), z, augmented @ head + noise))
    return Batch.of(made, Gaussian()), head


@pytest.mark.parametrize("objective", [IRMv1(), IRMv0()], ids=lambda o: o.title)
def test_penalty_vanishes_where_the_head_is_stationary(objective):
    batch, head = regression(3)
    model = Model(nn.Identity(), nn.Linear(2, 1))
    with torch.no_grad():
        model.head.weight.copy_(head[:2].unsqueeze(0))
        model.head.bias.copy_(head[2:])
        assert objective.penalty(batch, model, batch.x, model(batch.x)) < 1e-25
        assert batch.risks(model(batch.x)).min() > 0.05  # not because everything is fitted
        model.head.weight.add_(0.1)
        assert objective.penalty(batch, model, batch.x, model(batch.x)) > 1e-3


@pytest.mark.parametrize("objective", [REx(), Fishr()], ids=lambda o: o.title)
def test_penalty_vanishes_where_environments_are_alike(environments, smooth, objective):
    (a,), model = environments(6), smooth()
    same = Batch.of([Environment(name, a.x, a.y) for name in "abc"], Bernoulli())
    assert objective.penalty(same, model, model.features(same.x), model(same.x)) < 1e-30
    different = Batch.of(environments(6, 6, 6), Bernoulli())
    assert objective.penalty(different, model, model.features(different.x), model(different.x)) > 1e-6


@pytest.mark.parametrize("objective", [IRMv1, IRMv0])
def test_the_split_estimator_is_unbiased_and_the_squared_one_is_not(smooth, objective):
    """Against the penalty of a population, for many small samples of it."""
    random = generator(0)
    n, each_sample, samples = 2000, 4, 4000
    x, y = torch.randn(n, 3, generator=random), torch.randint(2, (n,), generator=random).double()
    model = smooth()

    def penalties(rows: Tensor, counts: tuple[int, ...], estimator: str) -> Tensor:
        batch = Batch(x[rows], y[rows], counts, Bernoulli())
        return objective(estimator=estimator, reduction="mean").penalty(
            batch, model, model.features(batch.x), model(batch.x)
        )

    with torch.no_grad():
        truth = float(penalties(torch.arange(n), (n,), "squared"))
        rows = torch.randint(n, (samples * each_sample,), generator=random)
        counts = (each_sample,) * samples  # every sample an environment: the mean over them estimates the expectation
        bias = {name: float(penalties(rows, counts, name)) - truth for name in ("squared", "split")}
    assert bias["squared"] > 0.02
    assert abs(bias["split"]) < 0.2 * bias["squared"]


@pytest.mark.parametrize("objective", [IRMv1, IRMv0, Fishr])
def test_adding_environments_is_averaging_them_times_their_number(environments, smooth, objective):
    batch, model = Batch.of(environments(4, 5, 6), Bernoulli()), smooth()
    z = model.features(batch.x)
    mean, added = (objective(reduction=r).penalty(batch, model, z, model.head(z)) for r in ("mean", "sum"))
    torch.testing.assert_close(added, 3 * mean)


# The objective around the penalty


@pytest.mark.parametrize(
    ("divide_by", "before", "after"), [("gamma", 1.0, 50.0), ("1+gamma", 1.5, 51.0), ("nothing", 1.0, 1.0)]
)
def test_risk_penalty_and_l2_share_one_divisor(environments, smooth, divide_by, before, after):
    objective = REx(gamma=50, gamma_before=0.5, divide_by=divide_by, l2=0.3)
    batch, model = Batch.of(environments(4, 5, 6), Bernoulli()), smooth()
    risks = batch.risks(model(batch.x))
    for clock, gamma, divisor in [(BEFORE, 0.5, before), (AFTER, 50, after)]:
        (move,) = objective.moves(model, batch, clock, generator(0))
        expected = (risks.mean() + gamma * risks.var(correction=0)) / divisor
        torch.testing.assert_close(move.loss(), expected)
        assert move.l2 == pytest.approx(0.3 / divisor)


def test_a_penalty_without_weight_is_not_computed(environments, smooth):
    objective = BIRM(gamma=10)  # not prepared: its penalty would fail for want of scales
    batch, model = Batch.of(environments(4, 5), Bernoulli()), smooth()
    risks = batch.risks(model(batch.x))
    torch.testing.assert_close(objective.combine(risks, pytest.fail, BEFORE), risks.mean())


def test_fishrs_moving_average_weighs_the_current_batch_as_one(environments, smooth):
    """Ema·past + (1 − ema)·v, divided by 1 − ema; only v is differentiated."""
    objective = Fishr(ema=0.9, gamma=2.0, divide_by="nothing")
    batch, model = Batch.of(environments(5, 6), Bernoulli()), smooth()
    batch.x.requires_grad_()
    objective.prepare(model, 2, generator(0))
    past = torch.zeros(2, 5)
    for _ in range(3):
        for move in objective.moves(model, batch, AFTER, generator(0)):
            z = model.features(batch.x)
            h = [sample_gradients(model.head, Bernoulli(), *part) for part in each(batch, z)]
            v = torch.stack([g.var(0, correction=0) for g in h])
            slow = spreads(list((0.9 * past + 0.1 * v) / 0.1)).mean()
            assert_same(move.loss(), batch.risks(model.head(z)).mean() + 2 * slow, batch, model)
        past = 0.9 * past + 0.1 * v.detach()
        with torch.no_grad():
            model.head.weight.mul_(1.5)


def test_fishrs_moving_average_remembers_the_step_however_often_the_loss_is_evaluated(environments, smooth):
    objective = Fishr(ema=0.9)
    batch = Batch.of(environments(5, 6), Bernoulli())
    averages = []
    for looks_around in (False, True):
        model = smooth()
        objective.prepare(model, 2, generator(0))
        for move in objective.moves(model, batch, AFTER, generator(0)):
            move.loss()
            if looks_around:  # as sharpness-aware recipes do
                with torch.no_grad():
                    model.head.weight.add_(1.0)
                    move.loss()
                    model.head.weight.sub_(1.0)
        averages.append(model.memory.average)
    torch.testing.assert_close(*averages)
