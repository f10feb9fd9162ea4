"""The order in which a table is written down does not matter: rows, columns and environments are ordered by content.

Initial weights, noise, batches and halves belong to places. In a table of up to ``FULL_BATCH_ROWS`` rows, places are
given by what rows, columns and environments hold, in units that do not matter either; what is equal in all that is
compared keeps the order it had. A larger table is trained on batches, and there another order is another draw.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from invariance.core.environment import Environment
from invariance.core.inputs import loaded
from invariance.core.seeding import generator
from invariance.estimators.defaults import FULL_BATCH_ROWS

MOMENTS = (1.0, 0.31, 0.17, 0.07)
"""How much the moments of a column count in its key. Any numbers will do, as long as no sum of them is zero."""

TINY = 1e-9
"""Columns that vary less, over their mean, are constant but for rounding."""
CHUNK_COLUMNS = 64
"""Columns that are standardised at once, which takes memory."""


class _Keys(NamedTuple):
    columns: Tensor
    """[d]"""
    rows: list[Tensor]
    """[n] for each environment."""


def rows_by_content(environments: Sequence[Environment]) -> list[Environment]:
    """The environments, the rows of each in an order that depends on what they hold alone, and looks random."""
    if not (keys := _keys(environments)):
        return list(environments)
    found = []
    for e, key in zip(environments, keys.rows, strict=True):
        shuffle = torch.randperm(len(e), generator=generator(0, "canonical"))
        found.append(e.take(key.argsort(stable=True)[shuffle]))
    return found


def without_names(environments: Sequence[Environment]) -> list[Environment]:
    """The environments ordered by their rows and called by their numbers."""
    if not (keys := _keys(environments)):
        return list(environments)
    place = [float(key.mean() + len(key) * key.square().mean()) for key in keys.rows]
    order = sorted(range(len(place)), key=place.__getitem__)
    return [replace(environments[j], name=f"{i:06d}") for i, j in enumerate(order)]


def column_places(environments: Sequence[Environment]) -> Tensor | None:
    """The place of each column among all, [d]; None where places are as they are."""
    keys = _keys(environments)
    return keys.columns.argsort(stable=True).argsort() if keys else None


def _keys(environments: Sequence[Environment]) -> _Keys | None:
    """Numbers that differ where contents differ, in any unit; None for images and for large tables."""
    x = environments[0].x
    if x.ndim != 2 or not x.dtype.is_floating_point or sum(map(len, environments)) > FULL_BATCH_ROWS:
        return None
    weight = torch.cat([torch.ones(len(e)).double() if e.weight is None else e.weight.double() for e in environments])
    weight = weight / weight.sum()
    y = _standardised(torch.cat([e.y for e in environments]).unsqueeze(1), weight).squeeze(1)
    parts = torch.cat([loaded(e.x) for e in environments]).split(CHUNK_COLUMNS, dim=1)
    columns = torch.cat([_column_keys(_standardised(part, weight), y, weight) for part in parts])
    factors = columns.argsort().argsort().double().add(1).cos().split(CHUNK_COLUMNS)
    rows = y + len(weight) * weight
    for part, factor in zip(parts, factors, strict=True):
        rows = rows + _standardised(part, weight) @ factor
    return _Keys(columns, list(rows.split([len(e) for e in environments])))


def _column_keys(z: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """A sum of moments of each column, beside the target and alone, [d]."""
    moments = ((weight * y) @ z, (weight * y) @ z.square(), weight @ z**3, (weight * y) @ z**3)
    return (torch.stack(moments, dim=1) * torch.tensor(MOMENTS).double()).sum(1)


def _standardised(values: Tensor, weight: Tensor) -> Tensor:
    """In double precision; a constant column becomes zero."""
    mean = weight @ values.double()
    centred = values.double() - mean
    scale = (weight @ centred.square()).sqrt()
    return torch.where(scale > TINY * mean.abs(), centred / scale, torch.zeros_like(centred))
