r"""The biased expert: what an environment classifier says about the label, as a logit offset.

Write L[y, e](x) = log P(e | x, y) and take out the means over labels and over environments:

    L = common[e](x) + interaction[y, e](x) + terms without e.

By Bayes' rule the interaction is how log P(y | x, e) differs between environments. Inputs that differ for reasons
unrelated to the label (covariate shift) are in ``common``, and classes that are more frequent in one environment (label
shift) only add a constant. So the interaction varies with x where a cue's relation to the label differs by environment,
and it is a function of such cues alone. Its values are clustered into *cue states* s. If cues and the rest are
independent given the label, the expert to be taken out is

    o_e(s) = log P(s | y, e) + prior shift β[y, e],

one entry per class. A likelihood per class covers cues whose error rate differs by class, states cover several cues at
once and any number of classes, and rows count by their weights.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from invariance.core.batch import Batch
from invariance.core.seeding import generator
from invariance.evaluation.scores import outputs
from invariance.models.base import Model

LEVEL = 0.01
"""The interaction must improve predictions of the environment on samples not trained on, at this level."""
FOLD = 5
"""One row in so many is not trained on."""
PROBE_ROWS = 4096
"""How many rows go through the classifier together, and how many are clustered."""
PRIOR = 10.0
"""How many rows of all environments an environment's own likelihood is mixed with."""
KEPT = 0.8
"""The share of the interaction's variance that cue states keep."""
MAX_STATES = 64
"""No more cue states than this."""


class Posterior(NamedTuple):
    """log P(e | x, y) of every row, in parts."""

    common: Tensor
    """The same for all labels, [n, E]."""
    interaction: Tensor
    """Of label and environment, [n, K, E]."""


def log_posterior(f: Tensor, environments: int) -> Tensor:
    """log P(e | x, y), [n, labels, E]."""
    return f.unflatten(1, (-1, environments)).log_softmax(-1)


def centred(values: Tensor) -> Tensor:
    """Without the means over labels and over environments, [..., K, E]."""
    values = values - values.mean(-1, keepdim=True)
    return values - values.mean(-2, keepdim=True)


def posterior(classifier: Model, data: Batch) -> Posterior:
    """What the classifier says about every row."""
    slices = [log_posterior(outputs(classifier, x), data.environments).double() for x in data.x.split(PROBE_ROWS)]
    table = torch.cat(slices)
    common = table.mean(1)
    return Posterior(common - common.mean(1, keepdim=True), centred(table))


def logit_offset(classifier: Model, data: Batch) -> Tensor | None:
    """o of every row, on the CPU, [n, K]; None where no cue's relation to the label differs between environments."""
    data = data.to(torch.device("cpu"))
    found = posterior(classifier, data)
    if interaction_p_value(found, data) >= LEVEL:
        return None
    states = cue_states(found.interaction)
    likelihood = log_likelihood(states, data)
    expert = likelihood + _fitted(found.common, centred(likelihood)[states], data).shift
    own = expert[states, :, data.environment]  # [n, K]
    own = own[:, 1:] - own[:, :1] if data.family.outputs == 1 else own - own.mean(1, keepdim=True)
    return own.to(torch.get_default_dtype())


def interaction_p_value(found: Posterior, data: Batch) -> float:
    """The probability that chance alone makes the interaction help as much to predict environments of held-out rows.

    A likelihood-ratio test of one slope, beside the common part and the frequency of each label: covariate shift and
    label shift are no evidence. A negative slope gives 1.
    """
    held = torch.cat([torch.arange(n) % FOLD == 0 for n in data.counts])
    rows = data.take(held.nonzero().squeeze(1), tuple(-(-n // FOLD) for n in data.counts))
    common, interaction = found.common[held], found.interaction[held]
    without = _fitted(common, torch.zeros_like(interaction), rows)
    with_it = _fitted(common, interaction, rows, slope=True)
    if with_it.slope <= 0:
        return 1.0
    return math.erfc(math.sqrt(max(without.loss - with_it.loss, 0.0)))


class _Fit(NamedTuple):
    loss: float
    slope: float
    shift: Tensor
    """β, how label frequencies differ by environment given the inputs, [K, E]."""


def _fitted(common: Tensor, evidence: Tensor, data: Batch, *, slope: bool = False) -> _Fit:
    """Maximum likelihood of P(e | x, y) ∝ exp(scale·common + slope·evidence + β[y, e]); without a slope it is 1."""
    weight, rows, labels = _weights(data), torch.arange(len(data.y)), data.y.long()
    own = evidence[rows, labels]
    scales = torch.ones(2, dtype=own.dtype, requires_grad=True)
    shift = torch.zeros(evidence.shape[1:], dtype=own.dtype, requires_grad=True)

    def loss() -> Tensor:
        logits = scales[0] * common + (scales[1] if slope else 1) * own + shift[labels]
        chosen = logits.log_softmax(1).gather(1, data.environment.unsqueeze(1)).squeeze(1)
        return -(weight * chosen).sum() / weight.sum() + 1e-6 * shift.square().sum()

    fit = torch.optim.LBFGS([scales, shift], max_iter=60, line_search_fn="strong_wolfe", tolerance_change=1e-12)

    def closure() -> float:
        fit.zero_grad()
        value = loss()
        value.backward()
        return float(value.detach())

    with torch.enable_grad():
        fit.step(closure)
    least = float(loss().detach() * weight.sum())
    return _Fit(least, float(scales[1].detach()), centred(shift.detach()))


def cue_states(interaction: Tensor) -> Tensor:
    """The cluster of every row by its interaction, [n].

    There are Kʲ clusters, as many as j cues that each suggest one of K labels have values, with the least j that keeps
    ``KEPT`` of the variance.
    """
    points = interaction.flatten(1)
    some = points[torch.linspace(0, len(points) - 1, min(len(points), PROBE_ROWS)).long()]
    labels = states = interaction.shape[1]
    spread = (some - some.mean(0)).square().sum()
    while True:
        centres = k_means(some, states)
        left = torch.cdist(some, centres).min(1).values.square().sum() / spread
        if left <= 1 - KEPT or states * labels > MAX_STATES:
            return torch.cdist(points, centres).argmin(1)
        states *= labels


def k_means(points: Tensor, clusters: int, tries: int = 3, rounds: int = 20) -> Tensor:
    """Centres of the clusters, [clusters, d]: the best of a few tries from k-means++ starts."""
    random = generator(0, "clusters", clusters)
    found = []
    for _ in range(tries):
        centres = points[torch.randint(len(points), (1,), generator=random)]
        while len(centres) < clusters:
            apart = torch.cdist(points, centres).min(1).values.square() + 1e-12
            centres = torch.cat([centres, points[torch.multinomial(apart, 1, generator=random)]])
        for _ in range(rounds):
            nearest = torch.cdist(points, centres).argmin(1)
            sizes = torch.bincount(nearest, minlength=clusters).unsqueeze(1)
            sums = torch.zeros_like(centres).index_add(0, nearest, points)
            centres = torch.where(sizes > 0, sums / sizes.clamp(min=1), centres)
        found.append((float(torch.cdist(points, centres).min(1).values.square().sum()), centres))
    return min(found, key=lambda each: each[0])[1]


def log_likelihood(states: Tensor, data: Batch) -> Tensor:
    """log P(s | y, e) from weighted counts, each mixed with ``PRIOR`` rows of all environments, [S, K, E]."""
    count, labels, environments = int(states.max()) + 1, data.family.labels, data.environments
    cells = (states * labels + data.y.long()) * environments + data.environment
    weight = _weights(data)
    n = torch.zeros(count * labels * environments, dtype=weight.dtype)
    n = n.index_add(0, cells, weight).view(count, labels, environments)
    everywhere = n.sum((1, 2)) / n.sum()  # P(s), [S]
    pooled = (n.sum(2) + PRIOR * everywhere.unsqueeze(1)) / (n.sum((0, 2)) + PRIOR)  # P(s | y), [S, K]
    return ((n + PRIOR * pooled.unsqueeze(2)) / (n.sum(0) + PRIOR)).log()


def _weights(data: Batch) -> Tensor:
    """Weights of the rows, scaled to add up to the effective number of rows."""
    if data.weight is None:
        return torch.ones_like(data.y, dtype=torch.double)
    weight = data.weight.double()
    return weight * (weight.sum() / weight.square().sum())
