r"""
IRMv1's penalty by hand
=======================

Two inputs: one has the same relation to the label in both environments, the other one does not. A linear model is
turned from the first to the second, and the penalty is computed twice: by the closed form that this package uses, an
average over samples, and by autograd, the obvious way. They agree, and the penalty is zero only where the model does
without the second input.
"""

import math

import matplotlib.pyplot as plt
import torch
from torch import nn

from invariance import Batch, Bernoulli, Environment, IRMv1, Model

generator = torch.Generator().manual_seed(0)


def environment(name: str, slope: float, rows: int = 20_000) -> Environment:
    """x₁ follows the label in the same way everywhere, x₂ by a slope of the environment's own."""
    y = (torch.rand(rows, generator=generator) < 0.5).float()
    sign = 2 * y - 1
    noise = torch.randn(rows, 2, generator=generator)
    return Environment(name, torch.stack([sign, slope * sign], 1) + noise, y)


batch = Batch.of([environment("Lyon", 2.0), environment("Bern", 0.5)], Bernoulli())
penalty = IRMv1()

# %%
# The model's outputs are c·(cos a · x₁ + sin a · x₂). At each angle a the scale c is the best one for both environments
# together, as in training without a penalty.


def scaled(angle: float) -> torch.Tensor:
    """Outputs [n, 1] at an angle, at the scale of least risk."""
    direction = batch.x @ torch.tensor([[math.cos(angle)], [math.sin(angle)]])
    scales = torch.linspace(0.05, 4, 80)
    risks = torch.stack([batch.risks(c * direction).mean() for c in scales])
    return scales[risks.argmin()] * direction


def by_autograd(f: torch.Tensor) -> float:
    """mean_e (∂R^e(c·f)/∂c)² at c = 1."""
    c = torch.ones((), requires_grad=True)
    gradients = [torch.autograd.grad(risk, c, retain_graph=True)[0] for risk in batch.risks(c * f)]
    return torch.stack(gradients).square().mean().item()


angles = torch.linspace(-0.8, 1.6, 49).tolist()
model = Model(nn.Identity(), nn.Linear(2, 1))
closed = [penalty.penalty(batch, model, batch.x, scaled(a)).item() for a in angles]
obvious = [by_autograd(scaled(a)) for a in angles]
risk = [batch.risks(scaled(a)).mean().item() for a in angles]
print(f"largest difference between both ways: {max(abs(a - b) for a, b in zip(closed, obvious, strict=True)):.1e}")

figure, axis = plt.subplots(figsize=(7, 3.8), layout="constrained")
axis.plot(angles, closed, "C0-", linewidth=4, alpha=0.4, label="penalty, closed form")
axis.plot(angles, obvious, "C0:", label="penalty, autograd")
axis.axvline(0, color="C2", label="invariant: x₁ alone")
other = axis.twinx()
other.plot(angles, risk, "C3-", label="mean risk")
axis.set(xlabel="angle: from x₁ (0) to x₂ (π/2)", ylabel="penalty")
other.set_ylabel("mean risk", color="C3")
axis.legend(frameon=False, loc="upper center")
plt.show()
