"""
A penalty in a LightningModule
==============================

The loss of ``training_step`` gets one more term.

The data are those of ``torch_loop.py``: the first column keeps its meaning, the second one loses it at a new site.
"""

import logging
import warnings

import lightning
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.utils.data import DataLoader

import invariance

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")  # on the number of workers of a loader
random = torch.Generator().manual_seed(0)


def site(rows: int, agreement: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows in which the second column agrees with the label as often as that."""
    y = torch.randint(2, (rows,), generator=random)
    chances = torch.tensor([0.75, agreement]).expand(rows, 2)
    bits = torch.where(torch.bernoulli(chances, generator=random).bool(), y[:, None], 1 - y[:, None])
    return 2 * bits - 1 + 0.1 * torch.randn(rows, 2, generator=random), y


class Invariant(lightning.LightningModule):
    """Logistic regression with IRMv1's penalty."""

    def __init__(self, gamma: float) -> None:
        super().__init__()
        self.layer, self.gamma = nn.Linear(2, 1), gamma
        self.penalty = invariance.penalty("irmv1")

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        """The loss of a batch, with the penalty."""
        x, y, environment = batch
        logits = self.layer(x).squeeze(1)
        loss = bce(logits, y.float()) + self.gamma * self.penalty(logits, y, environment)
        return loss / max(1.0, self.gamma)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=0.02)


parts = [site(2000, 0.95), site(2000, 0.7)]
x, y = (torch.cat(column) for column in zip(*parts, strict=True))
environment = torch.repeat_interleave(torch.arange(2), 2000)
x_new, y_new = site(2000, 0.1)

for gamma in (0.0, 300.0):
    torch.manual_seed(0)
    model = Invariant(gamma)
    loader = DataLoader([(x, y, environment)], batch_size=None)  # the whole table in each step
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    lightning.Trainer(max_epochs=400, accelerator="cpu", enable_model_summary=False, **quiet).fit(model, loader)
    model.eval()
    accuracy = [float(((model.layer(a).squeeze(1) > 0) == b).float().mean()) for a, b in ((x, y), (x_new, y_new))]
    print(f"γ = {gamma:>3g}: accuracy {accuracy[0]:.2f} in training, {accuracy[1]:.2f} at a new site")
