r"""P(y | x, e): one linear head per environment, on the features of the environment classifier or on the inputs.

The heads are convex problems, fitted on the rows that the classifier was trained on. Of every row it is known what each
environment's head says, not its own alone. For classes a head is w + d_e with a ridge on d_e, so environments share it
as far as their rows do not say otherwise. For numbers it is a ridge regression in each environment: there it is
μ_e/V_e that environments share, and V_e is not known before.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from invariance.core.batch import Batch
from invariance.core.families import Categorical
from invariance.core.inputs import floats
from invariance.evaluation.scores import outputs
from invariance.models.base import Model
from invariance.training.cue_states import PRIOR
from invariance.training.interaction import Posterior, centred, held_out, minimise, weights

RIDGE = 1e-3
"""The weight of ‖d_e‖², or of a regression's ‖w_e‖², beside the mean loss."""


def features(classifier: Model, data: Batch) -> Tensor:
    """z of every row, standardised, and a constant, [n, d + 1]."""
    z = outputs(Model(classifier.features, nn.Identity()), data.x).flatten(1).double()
    return _scaled(z - z.mean(0))


def inputs_within(data: Batch) -> Tensor | None:
    """Columns of every row beside their means in its environment, standardised, and a constant, [n, d + 1].

    None where inputs are no table in memory. Features tell the environment where inputs do, and a unit that is on in
    one environment alone says nothing in another: so heads are linear in the columns. An environment's own means are
    taken out, or else a head would be asked about inputs far from all that it was fitted on.
    """
    if not isinstance(data.x, Tensor) or data.x.ndim != 2:
        return None
    x = floats(data.x).double()
    return _scaled(x - data.mean(x)[data.environment])


def _scaled(z: Tensor) -> Tensor:
    z = z / z.std(0).clamp(min=1e-6)
    return torch.cat([z, torch.ones(len(z), 1, dtype=z.dtype)], 1)


def label_posterior(x: Tensor, data: Batch) -> Posterior:
    """What heads that are linear in ``x`` say about the label of every row."""
    table = environment_heads(x, data).log_softmax(1)  # [n, K, E]
    return Posterior(table.mean(2), centred(table), of_labels=True)


def environment_heads(z: Tensor, data: Batch) -> Tensor:
    """Outputs of the head of every environment on every row, [n, K, E]."""
    train, labels, family = ~held_out(data), data.family.labels, Categorical(data.family.labels)
    shared = torch.zeros(z.shape[1], labels, dtype=z.dtype, requires_grad=True)
    own = torch.zeros(data.environments, *shared.shape, dtype=z.dtype, requires_grad=True)
    weight, e, y = weights(data)[train], data.environment[train], data.y.long()[train]
    parts = [z[train][e == i] for i in range(data.environments)]

    def loss() -> Tensor:
        f = torch.cat([part @ (shared + own[i]) for i, part in enumerate(parts)])
        return (weight * family.loss(f, y)).sum() / weight.sum() + RIDGE * own.square().sum()

    minimise(loss, [shared, own])
    return torch.stack([z @ (shared + d).detach() for d in own], 2)


class Heads(NamedTuple):
    """P(y | x, e) of a number: Gaussian."""

    mean: Tensor
    """μ_e(x) of every row, [n, E]."""
    variance: Tensor
    """V_e, that of y around the mean in its own environment, [E]."""


def regression_heads(z: Tensor, data: Batch) -> Heads:
    """Ridge regressions, one in each environment; variances are mixed with ``PRIOR`` rows of all environments."""
    held, weight, y = held_out(data), weights(data), data.y
    means = []
    for e in range(data.environments):
        part = (data.environment == e) & ~held
        zw = z[part] * weight[part].unsqueeze(1)
        ridge = RIDGE * (1 + weight[part].sum()) * torch.eye(z.shape[1], dtype=z.dtype)
        means.append(z @ torch.linalg.solve(zw.T @ z[part] + ridge, zw.T @ y[part]))
    mean = torch.stack(means, 1)
    squares = (y - mean.gather(1, data.environment.unsqueeze(1)).squeeze(1)).square()
    return Heads(mean, mixed(data.mean(squares), by_environment(weight, data)).clamp(min=1e-6))


def by_environment(weight: Tensor, data: Batch) -> Tensor:
    """What the rows of each environment weigh together, [E]."""
    return torch.zeros(data.environments, dtype=weight.dtype).index_add(0, data.environment, weight)


def mixed(averages: Tensor, count: Tensor) -> Tensor:
    """Averages over the rows of each environment, [E, …], with ``PRIOR`` rows of all environments among them."""
    everywhere = (count * averages).sum(0) / count.sum()
    return (count * averages + PRIOR * everywhere) / (count + PRIOR)
