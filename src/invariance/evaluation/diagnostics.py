"""Diagnostics of a model: numbers that explain a failure before accuracy shows it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from invariance.core.batch import Batch
from invariance.core.environment import Environment
from invariance.core.families import Family
from invariance.evaluation.scores import Scores
from invariance.methods.base import Method
from invariance.methods.heads import gradients
from invariance.models.base import Model


@dataclass(frozen=True)
class Diagnostics:
    """Measured on samples of the training environments, in evaluation mode.

    A collapse shows as a logit scale going to zero, a shrinking representation as ‖z‖ going down while ‖w‖ goes up.
    """

    risks: dict[str, float]
    """R^e."""
    stationarity: dict[str, float]
    """‖∇_w R^e‖²: falls with ‖z‖² too, so read it beside that."""
    penalty: float | None
    """The method's own P, without its weight; None where it has none."""
    logit_scale: float
    """Standard deviation of the outputs."""
    feature_norm: float
    """Mean ‖z‖."""
    head_norm: float
    """‖w‖, over all parameters of the head."""


@torch.no_grad()
def scores_and_diagnostics(
    model: Model, method: Method, environments: Sequence[Environment], family: Family
) -> tuple[Scores, Diagnostics]:
    """Both, from one pass over the samples."""
    batch = Batch.of(environments, family).to(model.device)
    names = [e.name for e in environments]
    was_training = model.training
    model.eval()
    z = model.represent(batch.x)
    f = model.head(z)
    with torch.enable_grad():
        slopes = gradients(batch, model.head, z, f).detach().square().sum(1)
        penalty = method.measure(model, batch, z, f)
    model.train(was_training)
    found = Diagnostics(
        dict(zip(names, batch.risks(f).tolist(), strict=True)),
        dict(zip(names, slopes.tolist(), strict=True)),
        None if penalty is None else float(penalty),
        float(f.std(correction=0)),
        float(z.norm(dim=1).mean()),
        math.sqrt(sum(float(p.square().sum()) for p in model.head.parameters())),
    )
    return Scores.of_batch(batch, f, names), found
