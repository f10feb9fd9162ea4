"""Cue states: clusters of the interaction, and what each of them says about a class, as a table of counts."""

import torch
from torch import Tensor

from invariance.core.batch import Batch
from invariance.core.seeding import generator
from invariance.training.interaction import LEVEL, Posterior, evidence, weights

CLUSTER_ROWS = 4096
"""How many rows are clustered."""
PRIOR = 10.0
"""How many rows of all environments an environment's own likelihood is mixed with."""
KEPT = 0.8
"""The share of the interaction's variance that cue states keep."""
MIN_GAIN = 0.005
"""Nats per row that finer states must add to the log-likelihood of held-out rows: they hold noise, too."""
MAX_STATES = 64
"""No more cue states than this."""


def cue_states(found: Posterior, data: Batch) -> Tensor:
    """The cluster of every row by its interaction, [n].

    There are Kʲ clusters, as many as j cues that each suggest one of K labels have values, with the least j that keeps
    ``KEPT`` of the variance and leaves nothing within clusters that held-out rows confirm, as a cue that is a number
    would.
    """
    points = found.interaction.flatten(1)
    some = points[torch.linspace(0, len(points) - 1, min(len(points), CLUSTER_ROWS)).long()]
    labels = clusters = found.interaction.shape[1]
    spread = (some - some.mean(0)).square().sum()
    while True:
        centres = k_means(some, clusters)
        states = torch.cdist(points, centres).argmin(1)
        left = torch.cdist(some, centres).min(1).values.square().sum() / spread
        if clusters * labels > MAX_STATES or (left <= 1 - KEPT and not varies_within(states, found, data)):
            return states
        clusters *= labels


def varies_within(states: Tensor, found: Posterior, data: Batch) -> bool:
    """Whether held-out rows confirm what is left of the interaction within states, beside its mean in each of them."""
    own = found.interaction
    sums = own.new_zeros(int(states.max()) + 1, *own.shape[1:]).index_add(0, states, own)
    means = (sums / torch.bincount(states).clamp(min=1).view(-1, 1, 1))[states]
    left = evidence(found._replace(interaction=own - means), data, beside=means)
    return left.p_value < LEVEL and left.gain >= MIN_GAIN


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
    weight = weights(data)
    n = torch.zeros(count * labels * environments, dtype=weight.dtype)
    n = n.index_add(0, cells, weight).view(count, labels, environments)
    everywhere = n.sum((1, 2)) / n.sum()  # P(s), [S]
    pooled = (n.sum(2) + PRIOR * everywhere.unsqueeze(1)) / (n.sum((0, 2)) + PRIOR)  # P(s | y), [S, K]
    return ((n + PRIOR * pooled.unsqueeze(2)) / (n.sum(0) + PRIOR)).log()
