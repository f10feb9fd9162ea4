"""How far the parameters go, given their gradient.

Optimisers of our own around torch's kernels: the step of a small network takes as long as the checks that `torch.optim`
makes around it, and these import torch's compiler, which takes a second.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, final

import torch
from pydantic import Discriminator, Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from invariance.core.fields import STRICT, Positive

Momentum = Annotated[float, Field(ge=0, lt=1)]
Slots = dict[str, Tensor]
"""What an optimiser remembers of a parameter."""


class Optimiser(ABC):
    """Moves parameters by the gradients in their ``.grad``; those without one stay where they are."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = list(parameters)
        self.slots: dict[int, Slots] = {}
        """By the number of the parameter; there from its first gradient on."""

    @torch.no_grad()
    def step(self, rate: float, decay: float = 0.0) -> None:
        """One step at the learning rate, with the gradient of ½·decay·‖parameters‖² added."""
        moving = [i for i, p in enumerate(self.parameters) if p.grad is not None]
        for i in moving:
            if i not in self.slots:
                self.slots[i] = self.fresh(self.parameters[i])
        if moving:
            self.move(moving, rate, decay)

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for p in self.parameters:
            p.grad = None

    def load(self, slots: Mapping[int, Slots]) -> None:
        """Remember this, and nothing else."""
        self.slots = {
            i: {name: _like(self.parameters[i], name, value) for name, value in each.items()}
            for i, each in slots.items()
        }

    @abstractmethod
    def fresh(self, parameter: nn.Parameter) -> Slots:
        """What is remembered of a parameter before its first step."""

    @abstractmethod
    def move(self, moving: Sequence[int], rate: float, decay: float) -> None:
        """Move the parameters of these numbers."""


def _like(parameter: nn.Parameter, name: str, value: Tensor) -> Tensor:
    """A copy that lies in memory as the parameter does; the number of steps is a number."""
    value = value.to(parameter.device)
    return value.clone() if name == "step" else torch.empty_like(parameter).copy_(value)


def _moments(parameter: nn.Parameter) -> Slots:
    """Adam's, before the first step."""
    count = torch.zeros((), dtype=torch.float32, device=parameter.device)
    return {"step": count, "exp_avg": torch.zeros_like(parameter), "exp_avg_sq": torch.zeros_like(parameter)}


@dataclass(frozen=True, config=STRICT)
class Step(ABC):
    """A rule that turns gradients into steps. Weight decay is coupled: the gradient of an l2 term."""

    @abstractmethod
    def build(self, parameters: Sequence[nn.Parameter]) -> Optimiser:
        """An optimiser of these parameters."""


@final
@dataclass(frozen=True, config=STRICT)
class Adam(Step):
    """Adam (Kingma and Ba 2015), fused."""

    kind: Literal["adam"] = "adam"
    beta1: Momentum = 0.9
    beta2: Momentum = 0.999
    eps: Positive = 1e-8

    def build(self, parameters: Sequence[nn.Parameter]) -> Optimiser:
        return FusedAdam(parameters, self)


class FusedAdam(Optimiser):
    """Adam by one kernel for all parameters of a kind."""

    def __init__(self, parameters: Sequence[nn.Parameter], rule: Adam) -> None:
        super().__init__(parameters)
        self.rule = rule

    def fresh(self, parameter: nn.Parameter) -> Slots:
        return _moments(parameter)

    def move(self, moving: Sequence[int], rate: float, decay: float) -> None:
        for kind in dict.fromkeys(self.parameters[i].dtype for i in moving):
            own = [i for i in moving if self.parameters[i].dtype == kind]
            parameters: list[Tensor] = [self.parameters[i] for i in own]
            first, second, steps = ([self.slots[i][name] for i in own] for name in ("exp_avg", "exp_avg_sq", "step"))
            torch._foreach_add_(steps, 1)
            torch._fused_adam_(
                parameters,
                [p.grad for p in parameters if p.grad is not None],
                first,
                second,
                [],
                steps,
                lr=rate,
                beta1=self.rule.beta1,
                beta2=self.rule.beta2,
                weight_decay=decay,
                eps=self.rule.eps,
                amsgrad=False,
                maximize=False,
            )


@final
@dataclass(frozen=True, config=STRICT)
class SGD(Step):
    """Gradient descent with momentum."""

    kind: Literal["sgd"] = "sgd"
    momentum: Momentum = 0.9

    def build(self, parameters: Sequence[nn.Parameter]) -> Optimiser:
        return MomentumSGD(parameters, self.momentum)


class MomentumSGD(Optimiser):
    """v ← momentum·v + g, θ ← θ − rate·v, and v is g at first."""

    def __init__(self, parameters: Sequence[nn.Parameter], momentum: float) -> None:
        super().__init__(parameters)
        self.momentum = momentum

    def fresh(self, parameter: nn.Parameter) -> Slots:
        return {}

    def move(self, moving: Sequence[int], rate: float, decay: float) -> None:
        for i in moving:
            p, slots = self.parameters[i], self.slots[i]
            assert p.grad is not None  # noqa: S101 - it is moving
            g = p.grad.add(p, alpha=decay) if decay else p.grad
            if self.momentum:
                v = slots.get("momentum_buffer")
                slots["momentum_buffer"] = g = g.clone() if v is None else v.mul_(self.momentum).add_(g)
            p.add_(g, alpha=-rate)


@final
@dataclass(frozen=True, config=STRICT)
class LALR(Step):
    r"""Layer-wise adaptive learning rate:  θ ← θ − η · clip(‖θ‖, 0, ``most``) · u/‖u‖  for every tensor θ,

    where u is Adam's direction. The step of a layer then has a length of at most η·``most``, so η is larger
    than Adam's by far. A tensor that is zero steps as if its norm were 1, else it would stay zero.
    """

    kind: Literal["lalr"] = "lalr"
    most: Positive = 1.0

    def build(self, parameters: Sequence[nn.Parameter]) -> Optimiser:
        return LayerwiseAdam(parameters, self.most)


class LayerwiseAdam(Optimiser):
    """Adam's direction, scaled tensor by tensor to a length that follows the tensor's norm."""

    betas = (0.9, 0.999)
    eps = 1e-8

    def __init__(self, parameters: Sequence[nn.Parameter], most: float) -> None:
        super().__init__(parameters)
        self.most = most

    def fresh(self, parameter: nn.Parameter) -> Slots:
        return _moments(parameter) | {"step": torch.zeros(())}

    def move(self, moving: Sequence[int], rate: float, decay: float) -> None:
        for i in moving:
            p = self.parameters[i]
            assert p.grad is not None  # noqa: S101 - it is moving
            u = self._direction(self.slots[i], p.grad + decay * p)
            size = p.norm().clamp(max=self.most) if p.any() else 1.0
            p.sub_(u * (rate * size / (u.norm() + self.eps)))

    def _direction(self, slots: Slots, g: Tensor) -> Tensor:
        b1, b2 = self.betas
        slots["step"] += 1
        first = slots["exp_avg"].lerp_(g, 1 - b1) / (1 - b1 ** slots["step"])
        second = slots["exp_avg_sq"].lerp_(g.square(), 1 - b2) / (1 - b2 ** slots["step"])
        return first / (second.sqrt() + self.eps)


AnyOptimiser = Annotated[Adam | SGD | LALR, Discriminator("kind")]


class LBFGS(torch.optim.LBFGS):
    """torch's own, without the wrappers that import torch's compiler in order to hide from it."""

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
