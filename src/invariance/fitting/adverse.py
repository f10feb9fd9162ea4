"""Models of an assessment at the adverse site, where effects that vary between environments turn against the model."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from invariance.core.families import Bernoulli, Categorical, Family, Gaussian
from invariance.core.inputs import loaded
from invariance.core.rows import Rows
from invariance.estimators.adverse import AdverseSite, adverse_site
from invariance.estimators.base import Invariant
from invariance.estimators.inputs import to_environments
from invariance.fitting.assess import predictions, targets
from invariance.fitting.by_environment import Headline, Predictions

MAX_ROWS, MAX_SITES = 20_000, 50
"""Rows that effects are compared on, and their sites, drawn at random."""


def adverse_headlines(
    models: Sequence[Invariant], erm: Invariant, rows: Rows, headline: Headline
) -> tuple[AdverseSite, list[float]] | None:
    """The adverse site, and the headline of every model there; None where no effect varies."""
    if len(rows.names) < 2:
        return None
    rows = _some_in_order(rows)
    y = targets(erm, rows)
    classes = getattr(erm, "classes_", None)
    numbers = classes is None
    scaled = (y - y.mean()) / (y.std() or 1.0) if numbers else y
    environments = to_environments(rows, scaled)
    f = _outputs(predictions(erm, rows.x))
    site = adverse_site(environments, _family(classes), f.split(rows.counts), [place for _, place in rows.parts])
    if site is None:
        return None
    x: Any = torch.cat([loaded(e.x) for e in site.environments]).numpy() if numbers else rows.x
    weights = [e.weight.numpy() for e in site.environments if e.weight is not None]
    weight = np.concatenate(weights) if weights else None
    return site, [headline.metric.value(predictions(model, x), y, weight) for model in models]


def _some_in_order(rows: Rows) -> Rows:
    """At most ``MAX_ROWS`` rows of ``MAX_SITES`` environments, environment after environment."""
    if len(rows.names) > MAX_SITES:
        rows = rows.take(np.isin(rows.codes, np.random.default_rng(0).permutation(len(rows.names))[:MAX_SITES]))
    if len(rows) > MAX_ROWS:
        drawn = np.random.default_rng(0).permutation(len(rows))[:MAX_ROWS]
        rows = rows.take(np.isin(np.arange(len(rows)), drawn))
    order = np.argsort(rows.codes, kind="stable")
    weight = None if rows.weight is None else rows.weight[order]
    return replace(rows, x=rows.x[order], y=rows.y[order], codes=rows.codes[order], weight=weight)


def _family(classes: NDArray[Any] | None) -> Family:
    if classes is None:
        return Gaussian()
    return Bernoulli() if len(classes) == 2 else Categorical(len(classes))


def _outputs(answers: Predictions) -> Tensor:
    """Logits of probabilities, or numbers, [n, K]."""
    if answers.ndim == 1:
        return torch.from_numpy(np.asarray(answers, dtype=np.float64)).unsqueeze(1)
    logs = torch.from_numpy(np.log(np.asarray(answers, dtype=np.float64).clip(min=1e-12)))
    return logs[:, 1:] - logs[:, :1] if logs.shape[1] == 2 else logs


def names_of(inputs: Sequence[int], columns: Sequence[tuple[str, slice]]) -> tuple[str, ...]:
    """The names of the columns that some inputs belong to, in their order."""
    places: NDArray[np.int64] = np.asarray(inputs, dtype=np.int64)
    return tuple(name for name, place in columns if ((places >= place.start) & (places < place.stop)).any())
