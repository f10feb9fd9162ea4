"""How far the parameters go, given their gradient."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, final, overload

import torch
from pydantic import Discriminator, Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from invariance.core.fields import STRICT, Positive

Momentum = Annotated[float, Field(ge=0, lt=1)]
Groups = Iterable[dict[str, Any]]


@dataclass(frozen=True, config=STRICT)
class Step(ABC):
    """A rule that turns gradients into steps. Weight decay is coupled: the gradient of an l2 term."""

    @abstractmethod
    def build(self, groups: Groups) -> torch.optim.Optimizer:
        """An optimiser over groups of parameters; learning rates are set before each step."""


@final
@dataclass(frozen=True, config=STRICT)
class Adam(Step):
    """Adam (Kingma and Ba 2015), fused."""

    kind: Literal["adam"] = "adam"
    beta1: Momentum = 0.9
    beta2: Momentum = 0.999
    eps: Positive = 1e-8

    def build(self, groups: Groups) -> torch.optim.Optimizer:
        return torch.optim.Adam(groups, betas=(self.beta1, self.beta2), eps=self.eps, fused=True)


@final
@dataclass(frozen=True, config=STRICT)
class SGD(Step):
    """Gradient descent with momentum."""

    kind: Literal["sgd"] = "sgd"
    momentum: Momentum = 0.9

    def build(self, groups: Groups) -> torch.optim.Optimizer:
        return torch.optim.SGD(groups, lr=0.0, momentum=self.momentum)


@final
@dataclass(frozen=True, config=STRICT)
class LALR(Step):
    r"""Layer-wise adaptive learning rate:  θ ← θ − η · clip(‖θ‖, 0, ``most``) · u/‖u‖  for every tensor θ,

    where u is Adam's direction. The step of a layer then has a length of at most η·``most``, so η is larger
    than Adam's by far. A tensor that is zero steps as if its norm were 1, else it would stay zero.
    """

    kind: Literal["lalr"] = "lalr"
    most: Positive = 1.0

    def build(self, groups: Groups) -> torch.optim.Optimizer:
        return LayerwiseAdam(groups, {"lr": 0.0, "weight_decay": 0.0, "most": self.most})


class LayerwiseAdam(torch.optim.Optimizer):
    """Adam's direction, scaled tensor by tensor to a length that follows the tensor's norm."""

    betas = (0.9, 0.999)
    eps = 1e-8

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One step from the gradients in ``.grad``."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    u = self._direction(p, p.grad + group["weight_decay"] * p)
                    size = p.norm().clamp(max=group["most"]) if p.any() else 1.0
                    p.sub_(u * (group["lr"] * size / (u.norm() + self.eps)))
        return closure() if closure else None

    def _direction(self, p: Tensor, g: Tensor) -> Tensor:
        state = self.state[p]
        if not state:
            state.update(step=torch.zeros(()), exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
        b1, b2 = self.betas
        state["step"] += 1
        first = state["exp_avg"].lerp_(g, 1 - b1) / (1 - b1 ** state["step"])
        second = state["exp_avg_sq"].lerp_(g.square(), 1 - b2) / (1 - b2 ** state["step"])
        return first / (second.sqrt() + self.eps)


AnyOptimiser = Annotated[Adam | SGD | LALR, Discriminator("kind")]
