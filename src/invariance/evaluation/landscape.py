r"""The loss around a trained model, on a plane through its weights.

The plane is spanned by two random directions, *filter-normalised* (Li et al. 2018): each row of each weight matrix is
scaled to the length of the same row of the trained weights, biases stay where they are. So models of any scale are
compared in units of themselves.
"""

from copy import deepcopy

import torch
from torch import Tensor

from invariance.core.environment import Benchmark, Mechanism
from invariance.core.families import Family
from invariance.core.seeding import generator
from invariance.evaluation.scores import outputs
from invariance.models.base import Model

LossGrid = tuple[tuple[float, ...], ...]
MAX_ROWS = 2000
"""Rows of each test environment that the loss is computed on."""


def axis(points: int) -> tuple[float, ...]:
    """From −1 to 1; an odd number of points has the middle among them."""
    return tuple(torch.linspace(-1, 1, points).tolist()) if points > 1 else (0.0,)


def landscape(model: Model, benchmark: Benchmark, points: int, seed: int) -> LossGrid:
    """Test loss at every point of the plane, ``[i][j]`` at (axis[i], axis[j]); (0, 0) is the model itself.

    Models of one shape get the same random numbers from one seed.
    """
    moved = deepcopy(model)
    weights = [p.detach().clone().cpu() for p in moved.parameters()]
    across, along = (directions(weights, generator(seed, "landscape", side)) for side in ("across", "along"))
    rows = []
    for a in axis(points):
        row = []
        for b in axis(points):
            for p, w, u, v in zip(moved.parameters(), weights, across, along, strict=True):
                p.data.copy_(w + a * u + b * v)
            row.append(loss(moved, benchmark))
        rows.append(tuple(row))
    return tuple(rows)


def directions(weights: list[Tensor], generator: torch.Generator) -> list[Tensor]:
    """A Gaussian direction whose rows are as long as the weights' own; zero for vectors."""
    found = []
    for w in weights:
        d = torch.randn(w.shape, generator=generator, dtype=w.dtype)
        if w.ndim > 1:
            scale = w.flatten(1).norm(dim=1) / d.flatten(1).norm(dim=1).clamp_min(1e-12)
            found.append(d * scale.view(-1, *[1] * (w.ndim - 1)))
        else:
            found.append(torch.zeros_like(w))
    return found


def loss(model: Model, benchmark: Benchmark) -> float:
    """The mean loss over test environments, on the first samples of each; exact where a mechanism is known."""
    family = benchmark.family
    if benchmark.mechanism:
        return _expected(model, benchmark.mechanism, family)
    each = [family.loss(outputs(model, e.x[:MAX_ROWS]), e.y[:MAX_ROWS]).mean() for e in benchmark.test]
    return float(torch.stack(each).mean())


def _expected(model: Model, mechanism: Mechanism, family: Family) -> float:
    """In expectation over label noise and spurious bits, at the mean β."""
    beta = sum(mechanism.betas) / len(mechanism.betas)
    t = mechanism.t[:MAX_ROWS]
    off, on = (outputs(model, x[:MAX_ROWS]) for x in mechanism.inputs)
    total = torch.zeros((), dtype=torch.float64)
    for y, chance in ((t, 1 - mechanism.alpha), (~t, mechanism.alpha)):
        for contrary, share in ((False, 1 - beta), (True, beta)):
            f = torch.where((y ^ contrary).unsqueeze(1), on, off)
            total += chance * share * family.loss(f, y.to(f.dtype)).double().mean()
    return float(total)
