"""Diagnostics against the slow, obvious formulas, in float64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from invariance.core.environment import Environment
from invariance.core.families import Bernoulli, Categorical, Family, Gaussian
from invariance.core.seeding import generator
from invariance.evaluation.diagnostics import Diagnostics, scores_and_diagnostics
from invariance.evaluation.scores import score
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.methods.birm import BIRM
from invariance.methods.bloc_irm import BLOCIRM
from invariance.methods.erm import ERM
from invariance.methods.fishr import Fishr
from invariance.methods.irmv0 import IRMv0
from invariance.methods.irmv1 import IRMv1
from invariance.methods.rex import REx
from invariance.methods.sparse_irm import SparseIRM
from invariance.models.base import Model

pytestmark = pytest.mark.usefixtures("double")

FAMILIES: list[Family] = [Bernoulli(), Categorical(3), Gaussian()]
every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
both_heads = pytest.mark.parametrize("deep", [False, True], ids=["linear", "deep"])
Part = tuple[Tensor, Tensor]
Gradient = Callable[[Model, Family, Part], Tensor]


# The slow way: one environment at a time, autograd for every gradient


def risk(model: Model, family: Family, part: Part, scale: Tensor | float = 1.0) -> Tensor:
    x, y = part
    f = scale * model.head(model.features(x))
    match family:
        case Bernoulli():
            return functional.binary_cross_entropy_with_logits(f.squeeze(-1), y.double())
        case Categorical():
            return functional.cross_entropy(f, y)
        case _:
            return functional.mse_loss(f.squeeze(-1), y) / 2


def by_head(model: Model, family: Family, part: Part) -> Tensor:
    """∇_w R^e."""
    found = torch.autograd.grad(risk(model, family, part), list(model.head.parameters()), allow_unused=True)
    return torch.cat([g.flatten() for g in found if g is not None])


def by_scale(at: float = 1.0) -> Gradient:
    """∂R^e(c·f)/∂c."""

    def gradient(model: Model, family: Family, part: Part) -> Tensor:
        c = torch.tensor(at, requires_grad=True)
        return torch.autograd.grad(risk(model, family, part, c), c)[0].view(1)

    return gradient


def squared(model: Model, family: Family, parts: list[Part], gradient: Gradient) -> float:
    return float(torch.stack([gradient(model, family, part).square().sum() for part in parts]).mean())


def split(model: Model, family: Family, parts: list[Part], gradient: Gradient) -> float:
    """The product of the gradients of the two halves of each environment."""
    found = []
    for x, y in parts:
        half = (len(y) + 1) // 2
        first, second = (gradient(model, family, part) for part in ((x[:half], y[:half]), (x[half:], y[half:])))
        found.append((first * second).sum())
    return float(torch.stack(found).mean())


def spread_of_variances(model: Model, family: Family, parts: list[Part]) -> Tensor:
    """‖v_e − v̄‖² of each environment, from the gradient of every sample."""
    variances = []
    for x, y in parts:
        rows = torch.stack([by_head(model, family, (x[i : i + 1], y[i : i + 1])) for i in range(len(y))])
        variances.append(rows.var(0, correction=0))
    v = torch.stack(variances)
    return (v - v.mean(0)).square().sum(1)


def fishr(model: Model, family: Family, parts: list[Part]) -> float:
    return float(spread_of_variances(model, family, parts).mean())


def rex(model: Model, family: Family, parts: list[Part]) -> float:
    risks = [float(risk(model, family, part).detach()) for part in parts]
    middle = sum(risks) / len(risks)
    return sum((r - middle) ** 2 for r in risks) / len(risks)


def birm(model: Model, family: Family, parts: list[Part]) -> float:
    """At scales that are the same whenever it is measured."""
    scales = torch.empty(4, len(parts)).normal_(1.0, 0.3, generator=torch.Generator().manual_seed(0))
    each = [
        split(model, family, [part], by_scale(float(scales[j, e]))) for j in range(4) for e, part in enumerate(parts)
    ]
    return sum(each) / len(each)


PENALTIES: dict[str, tuple[Method, Callable[[Model, Family, list[Part]], float]]] = {
    "irmv1": (IRMv1(), lambda *given: squared(*given, by_scale())),
    "irmv1, split": (IRMv1(estimator="split"), lambda *given: split(*given, by_scale())),
    "irmv0": (IRMv0(), lambda *given: squared(*given, by_head)),
    "irmv0, added": (IRMv0(reduction="sum"), lambda m, f, parts: len(parts) * squared(m, f, parts, by_head)),
    "rex": (REx(), rex),
    "fishr": (Fishr(), fishr),
    "fishr, averaged": (Fishr(ema=0.9), fishr),
    "birm": (BIRM(draws=4, tau=0.3), birm),
    "sparse-irm": (SparseIRM(), lambda *given: squared(*given, by_scale())),
    "sparse-irm, rex": (SparseIRM(penalty_of="rex"), rex),
    "bloc-irm": (BLOCIRM(), lambda *given: squared(*given, by_head)),
    "bloc-irm, irmv1": (BLOCIRM(penalty="irmv1"), lambda *given: squared(*given, by_scale())),
    "bloc-irm, rex": (BLOCIRM(penalty="rex"), rex),
    "bloc-irm, fishr": (BLOCIRM(penalty="fishr"), fishr),
    "bloc-irm, none": (BLOCIRM(penalty="none"), lambda *given: 0.0),
}


@pytest.fixture
def measured(environments, smooth):
    """A random model, prepared for a method, with its diagnostics and the samples they were measured on."""

    def make(objective: Method, family: Family, deep: bool) -> tuple[Diagnostics, Model, list[Environment]]:
        made = environments(9, 6, 11, family=family)
        model = objective.prepare(smooth(outputs=family.outputs, deep=deep), len(made), generator(0, "objective"))
        return scores_and_diagnostics(model, objective, made, family)[1], model.eval(), made

    return make


def parts_of(environments: list[Environment]) -> list[Part]:
    return [(e.x, e.y) for e in environments]


@every_family
@both_heads
@pytest.mark.parametrize("method", METHODS.classes)
def test_risks_scales_and_norms_are_what_they_say(measured, method, family, deep):
    found, model, environments = measured(METHODS.create(method), family, deep)
    slow = [float(risk(model, family, part).detach()) for part in parts_of(environments)]
    assert found.risks == {"a": pytest.approx(slow[0]), "b": pytest.approx(slow[1]), "c": pytest.approx(slow[2])}
    with torch.no_grad():
        z = torch.cat([model.features(e.x) for e in environments])
        f = model.head(z)
    assert found.logit_scale == pytest.approx(float(((f - f.mean()) ** 2).mean().sqrt()))
    assert found.feature_norm == pytest.approx(sum(float(row.norm()) for row in z) / len(z))
    weights = torch.cat([p.detach().flatten() for p in model.head.parameters()])
    assert found.head_norm == pytest.approx(float(weights.norm()))


@every_family
@both_heads
@pytest.mark.parametrize("method", METHODS.classes)
def test_stationarity_is_the_squared_gradient_by_the_head(measured, method, family, deep):
    found, model, environments = measured(METHODS.create(method), family, deep)
    for environment, part in zip(environments, parts_of(environments), strict=True):
        slow = float(by_head(model, family, part).square().sum())
        assert found.stationarity[environment.name] == pytest.approx(slow, rel=1e-10)
        assert slow > 0


@every_family
@both_heads
@pytest.mark.parametrize("name", PENALTIES)
def test_the_penalty_is_the_methods_own_without_its_weight(measured, name, family, deep):
    objective, slow = PENALTIES[name]
    found, model, environments = measured(objective, family, deep)
    assert found.penalty == pytest.approx(slow(model, family, parts_of(environments)), rel=1e-10, abs=1e-14)


@pytest.mark.parametrize("method", METHODS.classes)
def test_a_penalty_is_recorded_where_the_method_measures_one(measured, method):
    found, _, _ = measured(METHODS.create(method), Bernoulli(), False)
    assert (found.penalty is not None) == (METHODS[method].measure is not Method.measure)


def test_diagnostics_are_measured_in_evaluation_mode_and_leave_the_model_as_it_was(environments, smooth):
    model = smooth()
    model.features.append(torch.nn.Dropout(0.5))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for training in (True, False):
        model.train(training)
        first, second = (scores_and_diagnostics(model, IRMv0(), environments(9, 6), Bernoulli()) for _ in range(2))
        assert first == second
        assert model.training == training
        assert all(part.training == training for part in model.modules())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


@every_family
def test_scores_are_those_of_the_model_and_every_sample_is_passed_once(environments, smooth, family):
    made, model, passed = environments(9, 6, 11, family=family), smooth(outputs=family.outputs), []
    expected = score(model, made, family)
    model.features.register_forward_hook(lambda module, inputs, z: passed.append(len(z)))
    scores, _ = scores_and_diagnostics(model, ERM(), made, family)
    assert scores.by_environment == pytest.approx(expected.by_environment, rel=1e-12)
    assert sum(passed) == 26


def test_a_collapse_shows_as_a_logit_scale_of_zero(environments, smooth):
    model = smooth()
    torch.nn.init.zeros_(model.head.weight)
    _, found = scores_and_diagnostics(model, ERM(), environments(9, 6), Bernoulli())
    assert found.logit_scale == pytest.approx(0, abs=1e-15)
    assert found.feature_norm > 0.1


def test_scale_moved_from_the_head_to_the_features_shows_in_the_norms_and_the_stationarity_alone(environments, smooth):
    """φ → cφ, w → w/c leaves every output: the head's bias stays, so its part of the gradient does."""
    plain, moved = smooth(), smooth()
    moved.features = torch.nn.Sequential(moved.features, Times(3.0))
    with torch.no_grad():
        moved.head.weight /= 3
    before, after = (
        scores_and_diagnostics(model, IRMv1(), environments(9, 6), Bernoulli())[1] for model in (plain, moved)
    )
    assert after.risks == pytest.approx(before.risks)
    assert after.penalty == pytest.approx(before.penalty)
    assert after.logit_scale == pytest.approx(before.logit_scale)
    assert after.feature_norm == pytest.approx(3 * before.feature_norm)
    assert after.head_norm < before.head_norm
    assert all(before.stationarity[e] < after.stationarity[e] < 9 * before.stationarity[e] for e in "ab")


class Times(torch.nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, z: Tensor) -> Tensor:
        return self.factor * z
