import subprocess
import sys

import pytest
import torch

from invariance.core.batch import Batch
from invariance.core.families import Bernoulli
from invariance.methods.erm import ERM
from invariance.methods.rex import REx
from invariance.recipes.optimiser import LALR, LBFGS, SGD, Adam
from invariance.recipes.recipe import Recipe
from invariance.training.loop import Training

pytestmark = pytest.mark.usefixtures("double")
LR = 0.03


def stepped(step, values: list[torch.Tensor], gradients: list[torch.Tensor], *, steps: int = 1) -> list[torch.Tensor]:
    parameters = [torch.nn.Parameter(v.clone()) for v in values]
    optimiser = step.build(parameters)
    for _ in range(steps):
        for p, g in zip(parameters, gradients, strict=True):
            p.grad = g.clone()
        optimiser.step(LR)
    return [p.detach() for p in parameters]


# LALR


@pytest.mark.parametrize("most", [1.0, 10.0])
def test_a_layers_step_is_as_long_as_its_clipped_norm_times_the_rate(most):
    values = [torch.tensor([0.3, -0.4]), torch.tensor([[3.0, 4.0]]), torch.tensor([1e-3])]
    gradients = [torch.tensor([5.0, 1.0]), torch.tensor([[-1e-3, 2.0]]), torch.tensor([7.0])]
    after = stepped(LALR(most=most), values, gradients)
    for p, q in zip(values, after, strict=True):
        assert float((p - q).norm()) == pytest.approx(LR * min(float(p.norm()), most), rel=1e-6)


def test_a_layers_step_is_along_adams_direction():
    value, gradient = torch.tensor([0.3, -0.4, 0.1]), torch.tensor([5.0, 1.0, -2.0])
    (after,) = stepped(LALR(), [value], [gradient], steps=1)
    (adam,) = stepped(Adam(), [value], [gradient], steps=1)
    cosine = torch.nn.functional.cosine_similarity(after - value, adam - value, dim=0)
    assert float(cosine) == pytest.approx(1.0, abs=1e-9)


def test_layerwise_moments_are_those_of_adam():
    """Over steps with changing gradients, each length taken out."""
    gradients = [torch.tensor([5.0, 1.0, -2.0]), torch.tensor([-1.0, 1.0, 3.0]), torch.tensor([0.5, -4.0, 1.0])]
    p, q = (torch.nn.Parameter(torch.tensor([0.3, -0.4, 0.1])) for _ in range(2))
    lalr, adam = LALR().build([p]), Adam().build([q])
    for g in gradients:
        p.grad, q.grad = g.clone(), g.clone()
        before_p, before_q = p.detach().clone(), q.detach().clone()
        lalr.step(LR)
        adam.step(LR)
        moved_p, moved_q = p.detach() - before_p, q.detach() - before_q
        torch.testing.assert_close(moved_p / moved_p.norm(), moved_q / moved_q.norm(), rtol=1e-6, atol=1e-8)


def test_a_tensor_of_zeros_moves_as_if_its_norm_were_one():
    (after,) = stepped(LALR(), [torch.zeros(4)], [torch.tensor([1.0, -2.0, 0.5, 3.0])])
    assert float(after.norm()) == pytest.approx(LR, rel=1e-6)


def test_a_layer_without_slope_stays():
    (after,) = stepped(LALR(), [torch.ones(3)], [torch.zeros(3)])
    assert torch.equal(after, torch.ones(3))


def test_a_parameter_without_gradient_is_left_alone():
    p = torch.nn.Parameter(torch.ones(3))
    for step in (LALR(), Adam(), SGD()):
        optimiser = step.build([p])
        optimiser.step(LR, 0.5)
        assert optimiser.slots == {}
        assert torch.equal(p, torch.ones(3))


# l2


@pytest.mark.parametrize("objective", [ERM(l2=0.2), REx(gamma=30, l2=0.2)], ids=lambda o: o.title)
@pytest.mark.parametrize(
    ("step", "reference"),
    [
        (Adam(beta1=0.8, beta2=0.99, eps=1e-6), lambda p: torch.optim.Adam(p, lr=LR, betas=(0.8, 0.99), eps=1e-6)),
        (SGD(momentum=0.7), lambda p: torch.optim.SGD(p, lr=LR, momentum=0.7)),
    ],
    ids=["adam", "sgd"],
)
def test_l2_as_weight_decay_is_l2_inside_the_loss(environments, smooth, step, reference, objective):
    """Also across the switch, where the objective and with it l2 is divided by γ."""
    made = environments(6, 7)
    training = Training(smooth(), objective, made, Recipe(epochs=6, warmup=0.5, lr=LR, step=step), Bernoulli(), 0)
    batch, model = Batch.of(made, Bernoulli()), smooth()
    optimiser = reference(model.parameters())
    for t in range(6):
        training.advance()
        gamma = (1 if t < 3 else 30) if isinstance(objective, REx) else 0
        risks = batch.risks(model(batch.x))
        l2 = 0.2 * sum(p.square().sum() for p in model.parameters())
        loss = (risks.mean() + gamma * risks.var(correction=0) + l2) / max(1, gamma)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        for p, q in zip(training.model.parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-11)


# Torch's own


TORCH = {
    "adam": (Adam(beta2=0.99), lambda p: torch.optim.Adam(p, lr=LR, betas=(0.9, 0.99), weight_decay=0.01, fused=True)),
    "sgd": (SGD(), lambda p: torch.optim.SGD(p, lr=LR, momentum=0.9, weight_decay=0.01)),
    "sgd without momentum": (SGD(momentum=0.0), lambda p: torch.optim.SGD(p, lr=LR, weight_decay=0.01)),
}


@pytest.mark.parametrize("case", TORCH)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_are_those_of_torchs_optimiser_bit_for_bit_also_after_a_state_was_loaded(case, dtype):
    step, theirs = TORCH[case]
    random = torch.Generator().manual_seed(0)
    values = [torch.randn(*shape, dtype=dtype, generator=random) for shape in [(33, 17), (17,), (1,)]]
    ours, others = ([torch.nn.Parameter(v.clone()) for v in values] for _ in range(2))
    mine, reference = step.build(ours), theirs(others)
    for t in range(6):
        for i, (p, q) in enumerate(zip(ours, others, strict=True)):
            gradient = torch.randn(p.shape, dtype=dtype, generator=random)
            p.grad, q.grad = (None, None) if (i, t) in {(1, 0), (2, 3)} else (gradient.clone(), gradient.clone())
        mine.step(LR, 0.01)
        reference.step()
        if t == 2:
            slots, mine = mine.slots, step.build(ours)
            mine.load(slots)
        assert all(torch.equal(p, q) for p, q in zip(ours, others, strict=True))


# L-BFGS


def test_l_bfgs_is_torchs_own():
    def minimum(optimiser: type[torch.optim.LBFGS]) -> torch.Tensor:
        x = torch.tensor([-1.2, 1.0, 0.3], requires_grad=True)
        fit = optimiser([x], max_iter=30, line_search_fn="strong_wolfe")

        def closure() -> float:
            fit.zero_grad()
            loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
            loss.backward()
            return float(loss.detach())

        fit.step(closure)
        return x.detach()

    assert torch.equal(minimum(LBFGS), minimum(torch.optim.LBFGS))


def test_l_bfgs_does_not_import_torchs_compiler():
    code = (
        "import sys, torch; from invariance.recipes.optimiser import LBFGS; x = torch.ones(1, requires_grad=True); "
        "fit = LBFGS([x]); fit.zero_grad(); fit.step(lambda: float(x)); sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
