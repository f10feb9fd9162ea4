r"""How outputs f and targets y meet.

All three families use the canonical link, so one identity carries every closed form of this package:

    ∂ loss(f, y) / ∂f = r = mean(f) − y,    the *residual*.

A second expert multiplies the likelihood, so its natural parameters o add to the model's (a product of experts):

    classes   logits f + o,
    numbers   precision × mean f + o₁ and precision 1 + o₂, so mean(f) = (f + o₁) / (1 + o₂),

and the identity stays.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor
from torch.nn import functional

from invariance.core.errors import BadValue

MIN_GAIN = 0.01
"""A model that gains less than this over the best constant has collapsed."""


class Family(ABC):
    """Loss, residual and score of outputs ``f`` [..., n, K] against targets ``y`` [n].

    ``offset`` [n, P] are natural parameters of a second expert, if there is one.
    """

    curvature: ClassVar[float]
    """The largest second derivative that the loss can have along the outputs."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """K, the number of outputs a model needs."""

    @property
    def parameters(self) -> int:
        """P, the number of natural parameters."""
        return self.outputs

    @property
    @abstractmethod
    def labels(self) -> int:
        """How many labels there are; 0 where targets are numbers."""

    @abstractmethod
    def check(self, y: Tensor, where: str) -> Tensor:
        """Targets in the type this family computes with; raises :class:`BadValue` if they are not targets."""

    @abstractmethod
    def loss(self, f: Tensor, y: Tensor, offset: Tensor | None = None) -> Tensor:
        """Negative log-likelihood of each sample, [..., n]."""

    @abstractmethod
    def residual(self, f: Tensor, y: Tensor, offset: Tensor | None = None) -> Tensor:
        """r = mean(f) − y, the derivative of the loss by f, [..., n, K]."""

    @abstractmethod
    def predict(self, f: Tensor) -> Tensor:
        """The target the model would name, [..., n]."""

    @abstractmethod
    def score(self, f: Tensor, y: Tensor) -> Tensor:
        """How good each prediction is, higher is better: 1 or 0 for classes, −(f − y)² for numbers; [..., n]."""

    @abstractmethod
    def gain(self, f: Tensor, y: Tensor) -> float:
        """What predictions are worth over the best constant: accuracy less the commonest class's share, or R²."""

    def collapsed(self, f: Tensor, y: Tensor) -> bool:
        """Whether a model with outputs ``f`` is (nearly) constant: it gains less than ``MIN_GAIN``."""
        return not self.gain(f, y) >= MIN_GAIN


class Classification(Family):
    """Targets are classes, and the score is accuracy."""

    def score(self, f: Tensor, y: Tensor) -> Tensor:
        return (self.predict(f) == y).to(f.dtype)

    def gain(self, f: Tensor, y: Tensor) -> float:
        return float(self.score(f, y).mean() - y.unique(return_counts=True)[1].max() / len(y))


@final
@dataclass(frozen=True)
class Bernoulli(Classification):
    """Two classes, one logit: mean(f) = σ(f), y ∈ {0, 1}."""

    curvature: ClassVar[float] = 0.25
    outputs: ClassVar[int] = 1
    labels: ClassVar[int] = 2

    def check(self, y: Tensor, where: str) -> Tensor:
        return _classes(y, 2, where).to(torch.get_default_dtype())

    def loss(self, f: Tensor, y: Tensor, offset: Tensor | None = None) -> Tensor:
        logit = _sum(f, offset).squeeze(-1)
        return functional.binary_cross_entropy_with_logits(logit, y.expand_as(logit), reduction="none")

    def residual(self, f: Tensor, y: Tensor, offset: Tensor | None = None) -> Tensor:
        return torch.sigmoid(_sum(f, offset)) - y.unsqueeze(-1)

    def predict(self, f: Tensor) -> Tensor:
        return (f.squeeze(-1) > 0).to(f.dtype)


@final
@dataclass(frozen=True)
class Categorical(Classification):
    """K classes, K logits: mean(f) = softmax(f), y ∈ {0, …, K − 1}."""

    curvature: ClassVar[float] = 0.5
    classes: int

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def labels(self) -> int:
        return self.classes

    def check(self, y: Tensor, where: str) -> Tensor:
        return _classes(y, self.classes, where).long()

    def loss(self, f: Tensor, y: Tensor, offset: Tensor | None = None) -> Tensor:
        f = _sum(f, offset)
        return torch.logsumexp(f, -1) - f.gather(-1, y.expand(f.shape[:-1]).unsqueeze(-1)).squeeze(-1)

    def residual(self, f: Tensor, y: Tensor, offset: Tensor | None = None) -> Tensor:
        return torch.softmax(_sum(f, offset), -1) - functional.one_hot(y, self.classes).to(f.dtype)

    def predict(self, f: Tensor) -> Tensor:
        return f.argmax(-1)


@final
@dataclass(frozen=True)
class Gaussian(Family):
    """A number with unit variance: mean(f) = f, loss ½(f − y)²; with a second expert ½(1 + o₂)(mean(f) − y)²."""

    curvature: ClassVar[float] = 1.0
    outputs: ClassVar[int] = 1
    parameters: ClassVar[int] = 2
    labels: ClassVar[int] = 0

    def check(self, y: Tensor, where: str) -> Tensor:
        y = y if y.is_floating_point() else y.to(torch.get_default_dtype())
        if not torch.isfinite(y).all():
            raise BadValue(f"{where}: a target is not a finite number; drop or fill such rows")
        return y

    def loss(self, f: Tensor, y: Tensor, offset: Tensor | None = None) -> Tensor:
        squares = 0.5 * self.residual(f, y, offset).squeeze(-1).square()
        return squares if offset is None else (1 + offset[..., 1]) * squares

    def residual(self, f: Tensor, y: Tensor, offset: Tensor | None = None) -> Tensor:
        mean = f if offset is None else (f + offset[..., :1]) / (1 + offset[..., 1:])
        return mean - y.unsqueeze(-1)

    def predict(self, f: Tensor) -> Tensor:
        return f.squeeze(-1)

    def score(self, f: Tensor, y: Tensor) -> Tensor:
        return -(f.squeeze(-1) - y).square()

    def gain(self, f: Tensor, y: Tensor) -> float:
        return 1 + float(self.score(f, y).mean() / y.var(correction=0).clamp(min=1e-12))


def _sum(f: Tensor, offset: Tensor | None) -> Tensor:
    return f if offset is None else f + offset


def _classes(y: Tensor, classes: int, where: str) -> Tensor:
    y = y.to(torch.uint8) if y.dtype == torch.bool else y
    outside = (y < 0) | (y >= classes) | (y != y.round())
    if outside.any():
        got = y[outside][0].item()
        raise BadValue(f"{where}: label {got:g} is outside the classes 0 to {classes - 1}; relabel the data")
    return y
