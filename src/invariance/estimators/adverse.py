r"""The adverse site: the training rows as they would be where effects that vary between sites turn against the model.

Effects of columns are compared between sites (`effects.py`). Those that vary have the adverse effect there.

The adverse site is made of the training rows, by exponential tilting: weights w ∝ exp(y·Δ·x), scaled to keep the share
of every class, move the effects by Δ. For numbers, where tilting has no bounded weights, the slopes of columns by the
target are compared instead, and columns are moved along the target.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from invariance.core.environment import Environment
from invariance.core.families import Family
from invariance.core.inputs import loaded
from invariance.estimators.effects import Sites, compared, compared_slopes

LEVEL = 0.01
"""Of the test that no effect varies between sites, over all columns together."""
MAX_COLUMNS, COMPONENTS = 64, 32
"""With more columns, as many principal components take their place."""
MIN_WEIGHT = 1e-9
"""Of a row at the adverse site, in units of the largest weight."""


@dataclass(frozen=True, eq=False)
class AdverseSite:
    """Training rows with other weights, or other values for numbers; and the columns whose effects vary.

    ``columns`` begin with the most significant, and are empty where principal components or outputs stand for them.
    ``p_value`` is that of the test that no effect varies, corrected for the number of columns.
    """

    environments: tuple[Environment, ...]
    columns: tuple[int, ...]
    p_value: float


def adverse_site(environments: Sequence[Environment], family: Family, f: Sequence[Tensor]) -> AdverseSite | None:
    """The adverse site, from ERM's outputs ``f`` [n, K] on rows not trained on; None if no effect varies."""
    x, of_table = _columns(environments, f)
    if family.labels:
        site = _tilted(environments, x, f, family.labels)
    elif of_table:
        site = _moved(environments, x)
    else:
        return None
    if not site.columns:
        return None
    return site if of_table else replace(site, columns=())


def _columns(environments: Sequence[Environment], f: Sequence[Tensor]) -> tuple[list[Tensor], bool]:
    """Standardised columns of every environment, and whether they are those of the table."""
    table = isinstance(environments[0].x, Tensor) and environments[0].x.ndim == 2
    parts = [loaded(e.x).double() for e in environments] if table else [part.double() for part in f]
    sizes = [len(part) for part in parts]
    x = torch.cat(parts)
    x = x - x.mean(0)
    x = x / x.std(0).clamp(min=1e-9)
    if x.shape[1] <= MAX_COLUMNS:
        return list(x.split(sizes)), table
    _, _, directions = torch.linalg.svd(x, full_matrices=False)
    x = x @ directions[:COMPONENTS].T
    return list((x / x.std(0).clamp(min=1e-9)).split(sizes)), False


def _tilted(environments: Sequence[Environment], x: Sequence[Tensor], f: Sequence[Tensor], labels: int) -> AdverseSite:
    """The rows with weights that move effects on the log-odds of each class against the rest."""
    tests = labels if labels > 2 else 1
    columns, sizes = torch.cat(list(x)), tuple(map(len, x))
    weight = torch.cat([_weights(e) for e in environments])
    shifts, p_values = [], dict[int, float]()
    for k in range(tests):
        offset = torch.cat([_against_rest(part.double(), k) for part in f])
        y = torch.cat([(e.y == (k if tests > 1 else 1)).double() for e in environments])
        effects = compared(Sites(columns, y, offset, weight, sizes), LEVEL / tests)
        for i in effects.varying:
            p_values[i] = min(p_values.get(i, 1.0), tests * float(effects.p_value[i]))
        shifts.append(columns @ (effects.adverse - effects.mean))
    by_class = torch.stack(shifts if tests > 1 else [-shifts[0] / 2, shifts[0] / 2], dim=1)  # [n, K]
    tilted = _keeping_class_shares(environments, by_class - by_class.mean(1, keepdim=True))
    site = tuple(replace(e, weight=weight) for e, weight in zip(environments, tilted, strict=True))
    return AdverseSite(site, tuple(sorted(p_values, key=lambda i: p_values[i])), min(p_values.values(), default=1.0))


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


def _moved(environments: Sequence[Environment], x: Sequence[Tensor]) -> AdverseSite:
    """The rows with columns moved along the target, so that their slopes by the target are the adverse ones."""
    targets = [e.y.double() - e.y.double().mean() for e in environments]
    slopes, variances = [], []
    for columns, y in zip(x, targets, strict=True):
        square = y.square().sum().clamp(min=1e-9)
        centred = columns - columns.mean(0)
        slopes.append(centred.T @ y / square)
        rest = centred - y.unsqueeze(1) * slopes[-1]
        variances.append((rest.square().mean(0) / square).clamp(min=1e-12))
    effects = compared_slopes(torch.stack(slopes), torch.stack(variances), LEVEL)
    scale = torch.cat([loaded(e.x) for e in environments]).double().std(0)
    moved = []
    for e, y, slope in zip(environments, targets, slopes, strict=True):
        change = torch.where(effects.adverse != effects.mean, effects.adverse - slope, 0.0) * scale
        moved.append(replace(e, x=(loaded(e.x).double() + y.unsqueeze(1) * change).to(e.x.dtype)))
    return AdverseSite(tuple(moved), effects.varying, float(effects.p_value.min()))
