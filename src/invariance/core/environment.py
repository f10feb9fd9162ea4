"""Environments, the mechanism that makes them, and the benchmark that holds them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from invariance.core.errors import BadValue, UnknownName
from invariance.core.families import Family
from invariance.core.inputs import Inputs, chosen, float_dtype

BETAS = tuple(round(0.05 * i, 2) for i in range(1, 20))
"""The 19 test environments of the literature."""


@dataclass(frozen=True, eq=False)
class Environment:
    """A named condition and its samples: inputs ``x`` [n, …], targets ``y`` [n].

    Inputs are floating point, or bytes that stand for numbers in [0, 1]: a tensor, or ``Pixels`` in a file. ``weight``
    [n] are sample weights, or None where every sample counts the same.
    """

    name: str
    x: Inputs
    y: Tensor
    weight: Tensor | None = None

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise BadValue(f"environment {self.name!r}: {len(self.x)} inputs but {len(self.y)} targets")
        if self.y.ndim != 1:
            raise BadValue(
                f"environment {self.name!r}: targets have shape {tuple(self.y.shape)}; expected one target per sample"
            )
        if len(self.y) == 0:
            raise BadValue(f"environment {self.name!r} is empty; drop it or give it samples")
        if isinstance(self.x, Tensor) and self.x.is_floating_point() and not _all_finite(self.x):
            raise BadValue(f"environment {self.name!r}: x holds NaN or infinite values; drop or fill such rows")
        if self.weight is not None and (self.weight.shape != self.y.shape or not (self.weight > 0).all()):
            raise BadValue(f"environment {self.name!r}: expected one positive weight per sample; drop rows of weight 0")

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Tensor | slice) -> "Environment":
        """The samples at ``rows``, with their weights."""
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, x=self.x[rows], y=self.y[rows], weight=weight)


def _all_finite(x: Tensor) -> bool:
    """Whether no entry is NaN or infinite. A finite sum says so in one pass; one that is not may have overflowed."""
    return bool(x.sum().isfinite()) or bool(x.isfinite().all())


def leave_out(
    environments: Sequence[Environment], names: Collection[str]
) -> tuple[tuple[Environment, ...], tuple[Environment, ...]]:
    """The environments to train on, and those called ``names``, which are left out; both in the given order."""
    rest = tuple(e for e in environments if e.name not in names)
    return rest, tuple(e for e in environments if e.name in names)


def environment_folds(order: Sequence[int], folds: int) -> list[list[int]]:
    """Numbers of environments, given in random ``order``, in at most ``folds`` parts: each is left out once."""
    return [sorted(order[start::folds]) for start in range(min(folds, len(order)))]


@dataclass(frozen=True, eq=False)
class Mechanism:
    r"""Environments that differ in one number β: how often a spurious bit disagrees with the label.

        y = t ⊕ Bernoulli(α),   s = y ⊕ Bernoulli(β),   x = ``inputs[s]``

    ``inputs`` holds every sample twice, as it looks with the spurious bit 0 and with 1; ``t`` the clean labels.
    """

    inputs: tuple[Inputs, Inputs]
    t: Tensor
    alpha: float
    betas: tuple[float, ...] = BETAS

    def __len__(self) -> int:
        return len(self.t)

    def take(self, rows: Tensor) -> "Mechanism":
        """The same mechanism over the samples at ``rows``."""
        off, on = self.inputs
        return replace(self, inputs=(off[rows], on[rows]), t=self.t[rows])

    def draw(self, beta: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A noisy label and a spurious bit for every sample."""
        y = self.t ^ (torch.rand(len(self), generator=generator) < self.alpha)
        s = y ^ (torch.rand(len(self), generator=generator) < beta)
        return y, s

    def environment(self, beta: float, generator: torch.Generator) -> Environment:
        """The samples with labels and spurious bits drawn once."""
        y, s = self.draw(beta, generator)
        return Environment(f"β={beta:g}", chosen(s, *self.inputs), y.to(float_dtype(self.inputs[0])))


@dataclass(frozen=True, eq=False)
class Benchmark:
    """Where to train, where to select, where to test.

    ``validation`` holds other samples of the training environments. Tests are either the ``test`` environments
    or, where a ``mechanism`` is given, every β of it.
    """

    family: Family
    train: tuple[Environment, ...]
    validation: tuple[Environment, ...] = ()
    test: tuple[Environment, ...] = ()
    mechanism: Mechanism | None = None

    def __post_init__(self) -> None:
        if not self.train:
            raise BadValue("a benchmark needs at least one training environment; got none")

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.train[0].x.shape[1:])

    def holding_out(self, name: str) -> "Benchmark":
        """The benchmark without one training environment, on whose samples models are then selected."""
        if name not in (names := [e.name for e in self.train]):
            raise UnknownName.of("training environment", name, names)
        rest, held_out = leave_out(self.train, {name})
        if len(rest) < 2:
            raise BadValue(
                f"leaving out {name!r} leaves {len(rest)} training environment; leave-one-environment-out "
                "needs at least three: add environments, or take another rule"
            )
        _, validation = leave_out(self.validation, {name})
        return replace(self, train=rest, validation=(validation or held_out)[:1])
