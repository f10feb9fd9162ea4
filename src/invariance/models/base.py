"""A model is w∘θ: features θ, then a head w."""

from abc import ABC, abstractmethod

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from invariance.core.device import device_of
from invariance.core.fields import STRICT
from invariance.core.inputs import Inputs, floats
from invariance.core.seeding import generator
from invariance.models.activation_checkpointing import checkpoint_slices, concatenate
from invariance.models.compiled import is_compiled
from invariance.models.relu_layers import ReLULayers, fused
from invariance.models.scratch import behind_fixed_layers, has_hooks


class Model(nn.Module):
    """f = head(features(x)).

    ``features`` and ``head`` are any modules; the closed forms of this package apply where the head is an
    ``nn.Linear``, autograd elsewhere. ``memory`` holds what a method must remember between steps (masks, moving
    averages); it is saved with a run and takes no part in prediction.

    Bytes become numbers in [0, 1] here. Inputs of more than ``slice`` rows go through ``features`` in slices, which
    stay in the cache. With more than ``keep`` rows, no activations are stored: the backward pass computes each slice
    again. The gradient is the same, and a step's memory grows with the number of rows by their outputs alone, or, where
    a method reads the features, by a feature vector and its gradient each. Features with batch normalisation take all
    rows at once in training, since their values depend on it. With ``bf16``, features are computed in that precision in
    training; weights, head, loss and penalty keep theirs.
    """

    def __init__(self, features: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.features = features
        self.head = head
        self.memory = nn.Module()
        self.slice = 4096
        self.keep = 65536
        self.bf16 = False

    @property
    def device(self) -> torch.device:
        """Where its parameters are; inputs are moved there."""
        return device_of(self)

    def represent(self, x: Inputs) -> Tensor:
        """z = θ(x), [n, d]."""
        layers = self._fusible(x)
        return self._fused(layers, None, x) if layers else self._sliced(None, x)

    def forward(self, x: Inputs) -> Tensor:
        """Outputs f = w(θ(x)), [n, K]."""
        layers, head = self._fusible(x), self.head
        if layers and type(head) is nn.Linear and head.bias is not None and not has_hooks(head):
            return self._fused(layers, head, x)
        return self._sliced(head, x)

    def _fusible(self, x: Inputs) -> ReLULayers | None:
        """The features, where they are computed as one operation."""
        layers = self.features
        usable = isinstance(layers, ReLULayers) and len(x) <= self.keep and layers.fusible(x)
        return layers if isinstance(layers, ReLULayers) and usable else None

    def _fused(self, layers: ReLULayers, head: nn.Linear | None, x: Inputs) -> Tensor:
        return fused(layers, head, x, self.slice, bf16=self.bf16 and self.training)

    def _theta(self, x: Inputs) -> tuple[nn.Module, Inputs]:
        """The features and their inputs; those of a full batch are taken behind the layers that never change."""
        if self.bf16 and self.training:
            return BFloat16(self.features), x
        if len(x) > self.keep or is_compiled(self.features):
            return self.features, x
        return behind_fixed_layers(self.features, x) or (self.features, x)

    def _sliced(self, head: nn.Module | None, x: Inputs) -> Tensor:
        theta, x = self._theta(x)
        module = theta if head is None else nn.Sequential(theta, head)
        device = self.device
        if len(x) <= self.slice or (self.training and batch_norms(module)):
            return module(floats(x, device))
        if len(x) > self.keep and torch.is_grad_enabled():
            return checkpoint_slices(module, x, self.slice)
        parts = (module(floats(part, device)) for part in x.split(self.slice))
        return torch.cat(list(parts)) if torch.is_grad_enabled() else concatenate(parts, len(x))


class BFloat16(nn.Module):
    """A module whose matrix products are in bf16 (torch's autocast), and whose inputs and outputs are not."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """The inner module, in the precision of x."""
        with torch.autocast(x.device.type, torch.bfloat16):
            z = self.inner(x)
        return z.to(x.dtype)


def batch_norms(module: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    """The layers of a module whose values depend on the whole batch."""
    return [part for part in module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]


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
    with torch.random.fork_rng(devices=[]):  # torch draws too; its skip_init imports a computer algebra system
        layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer
