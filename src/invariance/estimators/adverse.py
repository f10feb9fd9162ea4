r"""The adverse site: the training rows as they would be where effects that vary between sites turn against the model.

Effects of columns are compared between sites (`effects.py`). Those that vary have the adverse effect there. A column
with several inputs, such as the levels of a category, is compared, and turns, as what it adds to ERM's outputs.

The adverse site is made of the training rows, by exponential tilting: weights w ∝ exp(y·Δ·x), scaled to keep the share
of every class, move the effects by Δ. For numbers, where tilting has no bounded weights, the slopes of columns by the
target are compared instead, and columns are moved along the target.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components
from scipy.special import expit
from torch import Tensor

from invariance.core.environment import Environment
from invariance.core.families import Family
from invariance.core.inputs import loaded
from invariance.estimators.effects import Sites, compared, compared_slopes

LEVEL = 0.05
"""Of the test that no effect varies between sites, over all columns together."""
MAX_COLUMNS, COMPONENTS = 64, 32
"""With more columns, as many principal components take their place."""
MAX_COMPARED = 512
"""Inputs among which those that determine each other are looked for."""
MIN_VARIANCE, MIN_SHARE = 1e-3, 0.01
"""A combination of inputs of variance 1 with less variance connects those that have a larger share in it."""
MAX_CORRELATION = 0.9
"""Of what two columns add to ERM's outputs; beyond it, neither has an effect of its own that could be estimated."""
RIDGE = 1e-6
"""Of the least squares that make one number of a column's inputs, which may repeat each other."""
MIN_WEIGHT = 1e-9
"""Of a row at the adverse site, in units of the largest weight."""

Places = tuple[tuple[int, ...], ...]
"""The inputs of each column."""


@dataclass(frozen=True, eq=False)
class AdverseSite:
    """Training rows with other weights, or other values for numbers; and the columns whose effects vary.

    ``columns`` are the inputs of each, the most significant first; none where components or outputs stand for them.
    ``p_value`` is that of the test that no effect varies, corrected for the number of columns; ``probability`` is that
    one does, given the data.
    """

    environments: tuple[Environment, ...]
    columns: Places
    p_value: float
    probability: float


class Columns(NamedTuple):
    """Every column as one number of variance 1, ``x`` [n, c].

    ``direction`` [d, c] is how the standardised inputs change where x changes by 1.
    """

    x: Tensor
    direction: Tensor

    @classmethod
    def of(cls, inputs: Tensor, places: Places, f: Tensor) -> "Columns":
        """Of standardised ``inputs`` [n, d]; several of one column are what they add to ``f`` [n], by least squares."""
        direction = torch.zeros(inputs.shape[1], len(places), dtype=inputs.dtype)
        b = torch.ones(inputs.shape[1], dtype=inputs.dtype)
        if any(len(place) > 1 for place in places):
            ridge = RIDGE * len(inputs) * torch.eye(inputs.shape[1], dtype=inputs.dtype)
            b = torch.linalg.solve(inputs.T @ inputs + ridge, inputs.T @ (f - f.mean()))
        for c, place in enumerate(places):
            direction[list(place), c] = b[list(place)] if len(place) > 1 else 1.0
        x = inputs @ direction
        scale = x.std(0).clamp(min=1e-9)
        return cls(x / scale, direction * scale / direction.square().sum(0).clamp(min=1e-18))


def adverse_site(
    environments: Sequence[Environment], family: Family, f: Sequence[Tensor], parts: Sequence[slice] = ()
) -> AdverseSite | None:
    """The adverse site, from ERM's outputs ``f`` [n, K] on rows not trained on; None if no effect varies.

    ``parts`` are the inputs of each column; without them, every input is a column.
    """
    inputs, places, basis = _inputs(environments, f, parts)
    of_table = basis is not None and len(basis) == basis.shape[1]  # components are fewer
    together = torch.cat(list(f)).double()
    if of_table:
        classes = range(family.labels if family.labels > 2 else 1)
        places = joined(inputs, places, [_against_rest(together, k) for k in classes])
    if family.labels:
        site = _tilted(environments, inputs, places, together, family.labels)
    elif basis is not None:
        site = _moved(environments, inputs, places, together, basis)
    else:
        return None
    if not site.columns:
        return None
    return site if of_table else replace(site, columns=())


def _inputs(
    environments: Sequence[Environment], f: Sequence[Tensor], parts: Sequence[slice]
) -> tuple[Tensor, Places, Tensor | None]:
    """Standardised inputs [n, d], those of each column, and how those of the table [D] change with them, [D, d].

    They are the table's own, or its principal components; for anything else they are outputs, and nothing is known.
    """
    table = isinstance(environments[0].x, Tensor) and environments[0].x.ndim == 2
    x = torch.cat([loaded(e.x).double() for e in environments] if table else [part.double() for part in f])
    x = x - x.mean(0)
    x = x / x.std(0).clamp(min=1e-9)
    places = tuple(tuple(range(part.start, part.stop)) for part in parts) or _singles(x)
    places = apart(x, places) if table else places
    if len(places) <= MAX_COLUMNS:
        return x, places, torch.eye(x.shape[1], dtype=x.dtype) if table else None
    _, _, directions = torch.linalg.svd(x, full_matrices=False)
    x = x @ directions[:COMPONENTS].T
    scale = x.std(0).clamp(min=1e-9)
    return x / scale, _singles(x), directions[:COMPONENTS].T * scale if table else None


def _singles(x: Tensor) -> Places:
    return tuple((i,) for i in range(x.shape[1]))


def apart(x: Tensor, places: Places) -> Places:
    """Columns, where those that determine each other are one: what one of them says, the others go on saying.

    These are repeated columns, or the levels of a category, which add up to one: inputs that a combination without
    variance connects.
    """
    rows, inputs = x.shape
    if rows < 2 * inputs or inputs > MAX_COMPARED:
        return places
    values, vectors = map(torch.from_numpy, eigh((x.T @ x / rows).numpy()))  # torch's own may not converge here
    null = vectors[:, values < MIN_VARIANCE]
    of_column = torch.zeros(inputs, len(places), dtype=x.dtype)
    for c, place in enumerate(places):
        of_column[list(place), c] = 1.0
    return _connected(places, of_column.T @ ((null @ null.T).abs() > MIN_SHARE).to(x.dtype) @ of_column)


def joined(inputs: Tensor, places: Places, outputs: Sequence[Tensor]) -> Places:
    """Columns, where those that add nearly the same to ERM's ``outputs`` [n] are one, such as a word and a category."""
    linked = torch.zeros(len(places), len(places), dtype=inputs.dtype)
    for f in outputs:
        x = Columns.of(inputs, places, f).x
        linked += ((x.T @ x).abs() > MAX_CORRELATION * (len(x) - 1)).to(inputs.dtype)
    return _connected(places, linked)


def _connected(places: Places, linked: Tensor) -> Places:
    """Columns with those that they are ``linked`` to [c, c], directly or through others."""
    count, group = connected_components(linked.numpy(), directed=False)
    return tuple(tuple(i for c in range(len(places)) if group[c] == g for i in places[c]) for g in range(count))


def _tilted(environments: Sequence[Environment], inputs: Tensor, places: Places, f: Tensor, labels: int) -> AdverseSite:
    """The rows with weights that move effects on the log-odds of each class against the rest."""
    tests = labels if labels > 2 else 1
    sizes = tuple(map(len, environments))
    weight = torch.cat([_weights(e) for e in environments])
    shifts, p_values, log_odds = [], dict[int, float](), -math.inf
    for k in range(tests):
        offset = _against_rest(f, k)
        x = Columns.of(inputs, places, offset).x
        y = torch.cat([(e.y == (k if tests > 1 else 1)).double() for e in environments])
        effects = compared(Sites(x, y, offset, weight, sizes), LEVEL / tests)
        for i in effects.varying:
            p_values[i] = min(p_values.get(i, 1.0), tests * float(effects.p_value[i]))
        log_odds = max(log_odds, float(effects.log_odds.max()) - math.log(tests))
        shifts.append(x @ (effects.adverse - effects.mean))
    by_class = torch.stack(shifts if tests > 1 else [-shifts[0] / 2, shifts[0] / 2], dim=1)  # [n, K]
    tilted = _keeping_class_shares(environments, by_class - by_class.mean(1, keepdim=True))
    site = tuple(replace(e, weight=weight) for e, weight in zip(environments, tilted, strict=True))
    varying = sorted(p_values, key=lambda i: p_values[i])
    columns = tuple(places[i] for i in varying)
    return AdverseSite(site, columns, min(p_values.values(), default=1.0), float(expit(log_odds)))


def _weights(e: Environment) -> Tensor:
    """The weight of every row, 1 on average, [n]."""
    if e.weight is None:
        return torch.ones(len(e), dtype=torch.float64)
    return e.weight.double() / e.weight.double().mean()


def _keeping_class_shares(environments: Sequence[Environment], shifts: Tensor) -> Sequence[Tensor]:
    """Weights ∝ exp of the shift [n, K] of each row's own class, scaled so that every class keeps its share."""
    y = torch.cat([e.y.long() for e in environments])
    before = torch.cat([torch.ones(len(e)).double() if e.weight is None else e.weight.double() for e in environments])
    own = shifts.gather(1, y.unsqueeze(1)).squeeze(1)
    weight = before * (own - own.max()).exp().clamp(min=MIN_WEIGHT)
    for k in y.unique():
        rows = y == k
        weight[rows] *= before[rows].sum() / weight[rows].sum()
    return weight.split([len(e) for e in environments])


def _against_rest(f: Tensor, k: int) -> Tensor:
    """The log-odds of a class, [n]."""
    if f.shape[1] == 1:
        return f[:, 0]
    rest = [other for other in range(f.shape[1]) if other != k]
    return f[:, k] - f[:, rest].logsumexp(1)


def _moved(
    environments: Sequence[Environment], inputs: Tensor, places: Places, f: Tensor, basis: Tensor
) -> AdverseSite:
    """The rows with columns moved along the target, so that their slopes by the target are the adverse ones."""
    columns = Columns.of(inputs, places, f[:, 0])
    targets = [e.y.double() - e.y.double().mean() for e in environments]
    slopes, variances = [], []
    for x, y in zip(columns.x.split([len(e) for e in environments]), targets, strict=True):
        square = y.square().sum().clamp(min=1e-9)
        centred = x - x.mean(0)
        slopes.append(centred.T @ y / square)
        rest = centred - y.unsqueeze(1) * slopes[-1]
        variances.append((rest.square().mean(0) / square).clamp(min=1e-12))
    effects = compared_slopes(torch.stack(slopes), torch.stack(variances), LEVEL)
    scale = torch.cat([loaded(e.x) for e in environments]).double().std(0)
    moved = []
    for e, y, slope in zip(environments, targets, slopes, strict=True):
        turned = torch.where(effects.adverse != effects.mean, effects.adverse - slope, 0.0)
        change = basis @ (columns.direction @ turned) * scale
        moved.append(replace(e, x=(loaded(e.x).double() + y.unsqueeze(1) * change).to(e.x.dtype)))
    probability = float(expit(float(effects.log_odds.max())))
    columns_varying = tuple(places[i] for i in effects.varying)
    return AdverseSite(tuple(moved), columns_varying, float(effects.p_value.min()), probability)
