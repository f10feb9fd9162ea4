"""A model is w∘θ: features θ, then a head w."""

from abc import ABC, abstractmethod

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from invariance.core import generator
from invariance.values import STRICT


class Model(nn.Module):
    """f = head(features(x)).

    ``features`` and ``head`` are any modules; the closed forms of this package apply where the head is an
    ``nn.Linear``, autograd elsewhere. ``memory`` holds what a method must remember between steps (masks, moving
    averages); it is saved with a run and takes no part in prediction.

    Inputs of more than ``slice`` rows go through ``features`` in slices whose activations are computed again
    in the backward pass. The gradient is the same; memory holds the activations of one slice and one feature
    vector a row, and the matrix products stay in the cache.
    """

    def __init__(self, features: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.features = features
        self.head = head
        self.memory = nn.Module()
        self.slice = 1024

    def represent(self, x: Tensor) -> Tensor:
        """Z = θ(x), [n, d]."""
        if len(x) <= self.slice or not torch.is_grad_enabled():
            return self.features(x)
        parts = [checkpoint(self.features, part, use_reentrant=False) for part in x.split(self.slice)]
        return torch.cat(parts)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs f = w(θ(x)), [n, K]."""
        return self.head(self.represent(x))


@dataclass(frozen=True, config=STRICT)
class Architecture(ABC):
    """What decides a model up to its input and output sizes."""

    def build(self, input_shape: tuple[int, ...], outputs: int, seed: int = 0) -> Model:
        """A freshly initialised model."""
        return self.model(input_shape, outputs, generator(seed, "init"))

    @abstractmethod
    def model(self, input_shape: tuple[int, ...], outputs: int, generator: torch.Generator) -> Model:
        """The model, its initial weights drawn from ``generator``."""


def linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer with Xavier-uniform weights and zero biases, drawn from ``generator`` alone."""
    layer = nn.utils.skip_init(nn.Linear, inputs, outputs)
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer
