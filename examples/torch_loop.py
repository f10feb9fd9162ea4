"""
A penalty in a training loop of your own
========================================

Plain torch, with one more term in the loss.

The label agrees with the first column in three rows of four, everywhere. It agrees with the second in more of them,
but not at a new site.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

import invariance

random = torch.Generator().manual_seed(0)


def site(rows: int, agreement: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows in which the second column agrees with the label as often as that."""
    y = torch.randint(2, (rows,), generator=random)
    chances = torch.tensor([0.75, agreement]).expand(rows, 2)
    bits = torch.where(torch.bernoulli(chances, generator=random).bool(), y[:, None], 1 - y[:, None])
    return 2 * bits - 1 + 0.1 * torch.randn(rows, 2, generator=random), y


parts = [site(2000, 0.95), site(2000, 0.7)]
x, y = (torch.cat(column) for column in zip(*parts, strict=True))
environment = torch.repeat_interleave(torch.arange(2), 2000)
x_new, y_new = site(2000, 0.1)

figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
for place, gamma in enumerate((0.0, 300.0)):
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    penalty = invariance.penalty("irmv1")
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(400):
        logits = model(x).squeeze(1)
        loss = bce(logits, y.float()) + gamma * penalty(logits, y, environment)
        optimiser.zero_grad()
        (loss / max(1.0, gamma)).backward()
        optimiser.step()
    accuracy = [float(((model(a).squeeze(1) > 0) == b).float().mean()) for a, b in ((x, y), (x_new, y_new))]
    print(f"γ = {gamma:>3g}: accuracy {accuracy[0]:.2f} in training, {accuracy[1]:.2f} at a new site")
    axis.bar([place - 0.2, place + 0.2], [100 * share for share in accuracy], 0.36, color=["C7", "C0"])

axis.set(ylabel="accuracy in %", ylim=(0, 100), xticks=[0, 1], xticklabels=["γ = 0", "γ = 300"])
axis.legend(axis.patches[:2], ["training", "new site"], frameon=False)
plt.show()
