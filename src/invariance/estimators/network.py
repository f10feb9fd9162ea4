"""The model of an estimator: standardised columns, then hidden layers, an architecture or a module of the user's."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import pairwise

import torch
from torch import Tensor, nn

from invariance.core.environment import Environment
from invariance.core.errors import BadValue
from invariance.core.inputs import Inputs, floats
from invariance.core.seeding import generator
from invariance.estimators.canonical import column_places
from invariance.models.base import Architecture, Model, linear
from invariance.models.linear import Gate
from invariance.models.scratch import FixedLayer

CHUNK_ROWS = 65536
"""Rows that are averaged together."""

Features = nn.Module | Architecture
"""What may replace the hidden layers."""
Seen = Callable[[Tensor], Tensor]
"""Inputs as a method lets the model see them."""


class Standard(FixedLayer):
    """(x − mean) / scale, column by column, or channel by channel; a constant column becomes zero."""

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)

    @classmethod
    def of(cls, environments: Sequence[Environment], seen: Seen = lambda x: x) -> "Standard":
        """From the samples of some environments, as they are ``seen``.

        Bytes stand for numbers in [0, 1] and are not standardised.
        """
        if not environments[0].x.dtype.is_floating_point:
            first = floats(environments[0].x[:1])
            zero = first.new_zeros(first.shape[1], *[1] * (first.ndim - 2))  # [C, 1, …]
            return cls(zero, torch.ones_like(zero))
        mean = _average(environments, seen)
        std = _average(environments, lambda x: (seen(x) - mean).square()).sqrt()
        dtype = environments[0].x.dtype
        tiny = 10 * torch.finfo(dtype).eps * mean.abs()
        return cls(mean.to(dtype), torch.where(std > tiny, std, torch.ones_like(std)).to(dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Standardised inputs, shaped as they were."""
        return (x - self.get_buffer("mean")) / self.get_buffer("scale")


def _average(environments: Sequence[Environment], of: Callable[[Tensor], Tensor]) -> Tensor:
    """The weighted average of ``of(x)`` over all rows, and over what is not a column or channel.

    In double precision: squares of numbers beyond 10¹⁹ or below 10⁻²³ are no single-precision numbers.
    """
    total, count = torch.zeros((), dtype=torch.float64), 0.0
    for e in environments:
        weight = torch.ones_like(e.y, dtype=torch.float64) if e.weight is None else e.weight.double()
        for x, w in zip(e.x.split(CHUNK_ROWS), weight.split(CHUNK_ROWS), strict=True):
            values = of(floats(x).double())
            values = values.mean(tuple(range(2, x.ndim)), keepdim=True) if x.ndim > 2 else values  # [n, C, 1, …]
            total = total + torch.tensordot(w, values, dims=1)
            count += float(w.sum())
    return total / count


def build(
    environments: Sequence[Environment],
    outputs: int,
    *,
    hidden: Sequence[int],
    features: Features | None,
    seed: int,
    seen: Seen = lambda x: x,
) -> Model:
    """A new model in the precision of its inputs, which standardises them by the samples of these environments."""
    x: Inputs = environments[0].x
    probe = floats(x[:2])
    standard = Standard.of(environments, seen)
    if isinstance(features, Architecture):
        model = around(features, standard, tuple(x.shape[1:]), outputs, seed=seed)
    else:
        width = _width(features, standard(probe)) if features is not None else [x.shape[1], *hidden][-1]
        model = assemble(standard, width, outputs, hidden=hidden, features=features, seed=seed)
        if features is None and (places := column_places(environments)) is not None:
            first = next(layer for layer in (*model.features.children(), model.head) if isinstance(layer, nn.Linear))
            first.weight.data = first.weight.data[:, places]
    return model.to(probe.dtype)


def around(
    architecture: Architecture, standard: Standard, input_shape: tuple[int, ...], outputs: int, *, seed: int
) -> Model:
    """The model of an architecture, behind standardised inputs."""
    model = architecture.build(input_shape, outputs, seed)
    model.features = nn.Sequential(standard, model.features)
    return model


def assemble(
    standard: Standard, width: int, outputs: int, *, hidden: Sequence[int], features: nn.Module | None, seed: int
) -> Model:
    """Standardised inputs, then layers that end in ``width`` features, then the head."""
    random = generator(seed, "init")
    if features is not None:
        layers: list[nn.Module] = [deepcopy(features)]
    else:
        sizes = [len(standard.get_buffer("mean")), *hidden]
        layers = [part for a, b in pairwise(sizes) for part in (linear(a, b, random), nn.ReLU(inplace=True))]
    return Model(nn.Sequential(standard, *(layers or [Gate(width)])), linear(width, outputs, random))


def _width(features: nn.Module, x: Tensor) -> int:
    """The number of features that a module returns."""
    if not isinstance(features, nn.Module):
        raise BadValue(f"features is {features!r}; expected a torch module, an architecture or None")
    try:
        with torch.no_grad():
            z = deepcopy(features).to("cpu", x.dtype).eval()(x)
    except (RuntimeError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise BadValue(f"features cannot take rows of shape {tuple(x.shape[1:])}: {reason}") from None
    if z.ndim != 2 or len(z) != len(x):
        raise BadValue(f"features returns shape {tuple(z.shape)} for {len(x)} rows; expected one vector per row")
    return int(z.shape[1])
