"""Where the gradient of a move is taken: at the parameters, or a little uphill of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, Literal, final

import torch
from pydantic import Discriminator
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from invariance.core.fields import STRICT, Positive
from invariance.core.ranks import average

Loss = Callable[[], Tensor]


@dataclass(frozen=True, config=STRICT)
class Gradient(ABC):
    """Fills ``.grad`` of the parameters of a move."""

    @abstractmethod
    def __call__(self, loss: Loss, parameters: Sequence[nn.Parameter]) -> Tensor:
        """Returns the loss at the parameters, detached."""


@final
@dataclass(frozen=True, config=STRICT)
class Plain(Gradient):
    """∇loss(θ)."""

    kind: Literal["plain"] = "plain"

    def __call__(self, loss: Loss, parameters: Sequence[nn.Parameter]) -> Tensor:
        value = loss()
        _backward(value, parameters)
        return value.detach()


@final
@dataclass(frozen=True, config=STRICT)
class SAM(Gradient):
    r"""∇loss(θ + ε),   ε = radius · ∇loss(θ)/‖∇loss(θ)‖   (sharpness-aware minimisation, Foret et al. 2021)

    One ε for the whole loss of the move, penalty included. The ICLR 2023 paper bounds ‖ε‖² by 0.001, hence the
    radius.
    """

    kind: Literal["sam"] = "sam"
    radius: Positive = 0.001**0.5

    def __call__(self, loss: Loss, parameters: Sequence[nn.Parameter]) -> Tensor:
        value = loss()
        ascent = average(torch.autograd.grad(value, parameters, allow_unused=True, materialize_grads=True))
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(ascent)))
        here = [p.detach().clone() for p in parameters]
        with torch.no_grad():
            torch._foreach_add_(list(parameters), torch._foreach_mul(ascent, self.radius / (norm + 1e-12)))
        _backward(loss(), parameters)
        with torch.no_grad():
            torch._foreach_copy_(list(parameters), here)
        return value.detach()


def _backward(value: Tensor, parameters: Sequence[nn.Parameter]) -> None:
    value.backward(inputs=list(parameters))
    moving = {p: p.grad for p in parameters if p.grad is not None}
    for p, grad in zip(moving, average(list(moving.values())), strict=True):
        p.grad = grad


AnyGradient = Annotated[Plain | SAM, Discriminator("kind")]
