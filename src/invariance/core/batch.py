r"""The batch with its two averages.

Every invariance penalty is a function of averages over environments (`docs/architecture.md`), so a
:class:`Batch` keeps the samples of all environments in one tensor, environment after environment, and offers
two primitives: :meth:`Batch.mean` and :meth:`Batch.outer_mean`. No penalty loops over environments.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from invariance.core.environment import Environment
from invariance.core.errors import BadValue
from invariance.core.families import Family
from invariance.core.inputs import Inputs, float_dtype, joined, loaded
from invariance.core.outer_sums import Power, outer_sums, raised
from invariance.core.ranks import count, total
from invariance.core.shard import Shard


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples of several environments in one tensor: ``counts[e]`` rows of environment e, one after another.

    ``x`` is for models alone, which convert bytes to numbers. ``offset`` [n, P] are natural parameters that a
    second expert adds to those of the outputs in the loss (`core/families.py`).
    ``weight`` [n] enters both averages, so that a row of weight 2 counts as two rows in every method; environments
    count the same, whatever their rows weigh. Where several ranks train together, ``shard`` says which part of a larger
    batch the rows here are, and all averages are those of the larger batch (`core/ranks.py`).
    """

    x: Inputs
    y: Tensor
    counts: tuple[int, ...]
    family: Family
    offset: Tensor | None = None
    weight: Tensor | None = None
    shard: Shard | None = None

    @classmethod
    def of(cls, environments: Sequence[Environment], family: Family) -> "Batch":
        """All samples of some environments, inputs and targets checked."""
        _check_inputs(environments)
        dtype = float_dtype(environments[0].x)
        y = torch.cat([family.check(e.y, f"environment {e.name!r}") for e in environments])
        y = y.to(dtype) if y.is_floating_point() else y
        counts = tuple(len(e) for e in environments)
        return cls(joined([e.x for e in environments]), y, counts, family, weight=_joint_weight(environments, dtype))

    @property
    def environments(self) -> int:
        """E."""
        return len(self.counts)

    @cached_property
    def rows_each(self) -> int | None:
        """How many rows every environment has, or None where they differ."""
        return self.counts[0] if len(set(self.counts)) == 1 else None

    @cached_property
    def environment(self) -> Tensor:
        """The environment of each row, [n]."""
        counts = torch.tensor(self.counts, device=self.y.device)
        codes = torch.arange(self.environments, device=self.y.device)
        return torch.repeat_interleave(codes, counts, output_size=sum(self.counts))  # a known size: a GPU need not wait

    def to(self, device: torch.device) -> "Batch":
        """The same batch on a device; pixels stay in their file."""
        x = self.x.to(device) if isinstance(self.x, Tensor) else self.x
        offset, weight = (values if values is None else values.to(device) for values in (self.offset, self.weight))
        return replace(self, x=x, y=self.y.to(device), offset=offset, weight=weight)

    def take(
        self, rows: Tensor, counts: tuple[int, ...], shard: Shard | None = None, x: Tensor | None = None
    ) -> "Batch":
        """A smaller batch; ``rows`` are sorted by environment. Of these, ``shard`` takes one rank's part.

        ``x`` are the inputs of these rows, where they are read already.
        """
        rows, counts = (rows[shard.rows], shard.own) if shard else (rows, counts)
        here = rows.to(self.y.device)
        if x is None:
            x = self.x.index_select(0, here) if isinstance(self.x, Tensor) else loaded(self.x[rows])
        own = _of(self.offset, here), _of(self.weight, here)
        return Batch(x, self.y.index_select(0, here), counts, self.family, *own, shard)

    def only(self, e: int) -> "Batch":
        """The rows of environment ``e``."""
        rows = self.rows(e)
        own = _of(self.offset, rows), _of(self.weight, rows)
        shard = self.shard and self.shard.only(e)
        return Batch(self.x[rows], self.y[rows], (self.counts[e],), self.family, *own, shard)

    def rows(self, e: int) -> slice:
        """Where environment ``e`` lies."""
        start = sum(self.counts[:e])
        return slice(start, start + self.counts[e])

    def halved(self) -> "Batch":
        """The same rows as 2E environments: the first and the second half of each, one after another."""
        if min(self.shard.counts if self.shard else self.counts) < 2:
            raise BadValue("the split estimator needs at least two samples of every environment in a batch")
        if self.shard:
            shard = self.shard.halved()
            return replace(self, counts=shard.own, shard=shard)
        return replace(self, counts=tuple(half for n in self.counts for half in (n - n // 2, n // 2)))

    def own(self, values: Tensor) -> Tensor:
        """Of values for every row of the whole batch, those of the rows here."""
        return values[self.shard.rows.to(values.device)] if self.shard else values

    def mean(self, v: Tensor) -> Tensor:
        """Average over the rows of each environment: [n, …] → [E, …]."""
        if self.weight is None:
            return self._plain_mean(v)
        weight = self.weight.view(-1, *[1] * (v.ndim - 1))
        return self._plain_mean(weight * v) / self._plain_mean(weight)

    def _plain_mean(self, v: Tensor) -> Tensor:
        if self.rows_each and not self.shard:
            return v.unflatten(0, (self.environments, self.rows_each)).mean(1)
        return self._over_counts(self._sums(v))

    def _sums(self, v: Tensor) -> Tensor:
        """Over the rows of each environment that are here."""
        if self.rows_each and self.shard:
            return v.unflatten(0, (self.environments, self.rows_each)).sum(1)
        return v.new_zeros(self.environments, *v.shape[1:]).index_add(0, self.environment, v)

    def _over_counts(self, sums: Tensor) -> Tensor:
        """The sums here, [E, …], as averages of the whole batch."""
        sums, counts = (total(sums), self.shard.counts) if self.shard else (sums, self.counts)
        return sums / torch.tensor(counts, dtype=sums.dtype, device=sums.device).view(-1, *[1] * (sums.ndim - 1))

    def outer_mean(self, a: Tensor, b: Tensor, power: Power = 1) -> Tensor:
        """Average of a ⊗ b^power over the rows of each environment: [n, p], [n, q] → [E, p, q]."""
        if self.weight is not None:
            weight = self.weight.unsqueeze(1)
            return replace(self, weight=None).outer_mean(weight * a, b, power) / self._plain_mean(weight).unsqueeze(2)
        if self.rows_each:
            return self._over_counts(outer_sums(a, b, self.environments, power))
        b = raised(b, power)
        return self._over_counts(torch.stack([self._sums(column.unsqueeze(1) * b) for column in a.unbind(1)], dim=1))

    def pooled_mean(self, v: Tensor) -> Tensor:
        """Average over all rows, whatever their environment: [n] → []."""
        sums = (v.sum(), v.new_tensor(len(v))) if self.weight is None else ((self.weight * v).sum(), self.weight.sum())
        value, weight = total(torch.stack(sums)) if self.shard else sums
        return value / weight

    def gradients(self, averages: Tensor, w: Tensor) -> Tensor:
        """∂averages[e]/∂w, differentiable: [E] → [E, P]; ``w`` is shared, [P], or one per environment, [E, P]."""
        each = [torch.autograd.grad(average, w, create_graph=True)[0] for average in averages]
        own = torch.stack([g if g.ndim == 1 else g[e] for e, g in enumerate(each)])
        return total(own) / count() if self.shard else own

    def loss(self, f: Tensor) -> Tensor:
        """Loss of each row, [n]."""
        return self.family.loss(f, self.y, self.offset)

    def residual(self, f: Tensor) -> Tensor:
        """r = mean(f) − y of each row, [n, K]."""
        return self.family.residual(f, self.y, self.offset)

    def risks(self, f: Tensor) -> Tensor:
        """R^e, the mean loss in each environment, [E]."""
        return self.mean(self.loss(f))


def _check_inputs(environments: Sequence[Environment]) -> None:
    """Refuse environments of one name, and inputs that do not fit into one tensor."""
    names = [e.name for e in environments]
    if len(set(names)) < len(names):
        raise BadValue(f"environments need different names; got {', '.join(names)}")
    first = environments[0].x
    for e in environments:
        usable = e.x.dtype.is_floating_point or e.x.dtype == torch.uint8
        if not usable or e.x.dtype != first.dtype or e.x.shape[1:] != first.shape[1:]:
            raise BadValue(
                f"environment {e.name!r}: inputs are {e.x.dtype} of shape {tuple(e.x.shape[1:])}; "
                f"expected floating point or bytes, of one type and shape, as in {names[0]!r}"
            )


def _joint_weight(environments: Sequence[Environment], dtype: torch.dtype) -> Tensor | None:
    """Weights of all samples, 1 in environments without them; None where no environment has weights."""
    if all(e.weight is None for e in environments):
        return None
    weights = [torch.ones_like(e.y, dtype=dtype) if e.weight is None else e.weight.to(dtype) for e in environments]
    return torch.cat(weights)


def _of(values: Tensor | None, rows: Tensor | slice) -> Tensor | None:
    return None if values is None else values[rows]
