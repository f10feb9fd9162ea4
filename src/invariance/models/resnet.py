"""ResNet-18, with torchvision's names for its parts."""

import os
import warnings
from pathlib import Path
from typing import Annotated, Literal, final

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn
from torch.nn import functional

from invariance.core.errors import BadValue, DataError
from invariance.core.fields import STRICT, expanded
from invariance.models.base import Architecture, Model, linear

Norm = Literal["batch", "group"]
Stem = Literal["imagenet", "small"]
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet's three colours, which published weights expect."""
COUNT = ".num_batches_tracked"
MIN_CHANNELS_LAST = 8
"""Images are laid out channels-last from this width on. Below it, oneDNN (torch 2.13) corrupts memory without AVX-512,
in the backward pass of a 1×1 convolution with stride 2."""


def norm(kind: Norm, channels: int) -> nn.Module:
    """Normalisation over the batch, or over groups of 8 channels of each image."""
    return nn.BatchNorm2d(channels) if kind == "batch" else nn.GroupNorm(max(1, channels // 8), channels)


def conv(inputs: int, outputs: int, size: int, stride: int, generator: torch.Generator) -> nn.Conv2d:
    """A convolution without bias, with He-normal weights drawn from ``generator`` alone."""
    where = torch.get_default_device()
    layer = nn.utils.skip_init(nn.Conv2d, inputs, outputs, size, stride, size // 2, bias=False, device=where)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu", generator=generator)
    return layer


class Block(nn.Module):
    """Two 3×3 convolutions beside the identity, or beside a 1×1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int, kind: Norm, generator: torch.Generator) -> None:
        super().__init__()
        self.conv1 = conv(inputs, outputs, 3, stride, generator)
        self.bn1 = norm(kind, outputs)
        self.conv2 = conv(outputs, outputs, 3, 1, generator)
        self.bn2 = norm(kind, outputs)
        self.downsample: nn.Module | None = None
        if stride > 1 or inputs != outputs:
            self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride, generator), norm(kind, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Features, [n, outputs, h/stride, w/stride]."""
        beside = x if self.downsample is None else self.downsample(x)
        x = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        return functional.relu(self.bn2(self.conv2(x)) + beside, inplace=True)


class Features(nn.Module):
    """All but the last layer. Images in [0, 1] are normalised as ImageNet's are."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, channels: int, width: int, stem: Stem, kind: Norm, generator: torch.Generator) -> None:
        super().__init__()
        for name, values in (("mean", MEAN), ("deviation", DEVIATION)):
            colours = torch.tensor(values if channels == 3 else [sum(values) / 3] * channels)
            self.register_buffer(name, colours.view(-1, 1, 1), persistent=False)
        self.layout = torch.channels_last if width >= MIN_CHANNELS_LAST else torch.contiguous_format
        self.conv1 = conv(channels, width, *((7, 2) if stem == "imagenet" else (3, 1)), generator)
        self.bn1 = norm(kind, width)
        self.layer1 = self._layer(width, width, 1, kind, generator)
        self.layer2 = self._layer(width, 2 * width, 2, kind, generator)
        self.layer3 = self._layer(2 * width, 4 * width, 2, kind, generator)
        self.layer4 = self._layer(4 * width, 8 * width, 2, kind, generator)

    def _layer(self, inputs: int, outputs: int, stride: int, kind: Norm, generator: torch.Generator) -> nn.Sequential:
        return nn.Sequential(
            Block(inputs, outputs, stride, kind, generator), Block(outputs, outputs, 1, kind, generator)
        )

    def forward(self, x: Tensor) -> Tensor:
        """z, [n, 8·width]."""
        x = ((x - self.mean) / self.deviation).contiguous(memory_format=self.layout)
        x = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        x = functional.max_pool2d(x, 3, 2, 1)
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
        return x.mean((2, 3))


@final
@dataclass(frozen=True, config=STRICT)
class ResNet(Architecture):
    """ResNet-18 (He et al. 2016).

    ``stem`` is ImageNet's 7×7 convolution with stride 2, or for small images a 3×3 one with stride 1; both are followed
    by max-pooling. ``norm`` says over what is normalised: the batch, all environments in it together, or groups of
    channels. ``width`` is the number of channels of the first block. ``weights`` is a file with published weights
    (.safetensors, or .pth as torchvision's); where its last layer has another number of outputs, ours starts afresh.
    """

    stem: Stem = "imagenet"
    norm: Norm = "batch"
    width: Annotated[int, Field(ge=1, le=256)] = 64
    weights: str | None = None

    def model(self, input_shape: tuple[int, ...], outputs: int, generator: torch.Generator) -> Model:
        if len(input_shape) != 3:
            raise BadValue(f"a ResNet takes images [channels, height, width]; got inputs of shape {input_shape}")
        features = Features(input_shape[0], self.width, self.stem, self.norm, generator)
        model = Model(features, linear(8 * self.width, outputs, generator))
        model.slice, model.keep = 64, 512
        if self.weights:
            load(model, located(self.weights))
        return model


def located(weights: str) -> Path:
    """The file of some weights."""
    path = expanded(weights)
    if not os.access(path, os.R_OK) or not path.is_file():
        raise DataError(
            f"there is no file {path} to read weights from; give one with --set model.weights=FILE, or --weights of fit"
        )
    return path


def load(model: Model, path: Path) -> None:
    """Put the weights of a file into a ResNet."""
    found = read(path)
    own = {**model.features.state_dict(), **{f"fc.{k}": v for k, v in model.head.state_dict().items()}}
    fits = {k: v for k, v in found.items() if k in own and v.shape == own[k].shape}
    check(path, found, own)
    if broken := [k for k, v in fits.items() if not v.to(own[k].dtype).isfinite().all()]:
        raise DataError(f"{path} cannot be used: {broken[0]} holds numbers that are not finite; give another file")
    model.features.load_state_dict({k: fits.get(k, v) for k, v in own.items() if not k.startswith("fc.")})
    if "fc.weight" in fits and "fc.bias" in fits:
        model.head.load_state_dict({"weight": fits["fc.weight"], "bias": fits["fc.bias"]})


def check(path: Path, found: dict[str, Tensor], own: dict[str, Tensor]) -> None:
    """Refuse weights of another network: all but the last layer and counts of batches must be there, and no more."""
    got, wanted = (
        {k: tuple(v.shape) for k, v in tensors.items() if not k.startswith("fc.") and not k.endswith(COUNT)}
        for tensors in (found, own)
    )
    if wrong := [k for k in wanted if got.get(k) != wanted[k]]:
        first = wrong[0]
        what = f"has shape {got[first]}" if first in got else "is missing"
        raise DataError(
            f"{path} does not fit this ResNet-18: {first} {what}, expected {wanted[first]}; "
            "ImageNet's weights need stem=imagenet, norm=batch, width=64 and three channels"
        )
    if beyond := [k for k in got if k not in wanted]:
        statistics = all(k.endswith((".running_mean", ".running_var")) for k in beyond)
        advice = "set model.norm=batch" if statistics else "give the weights of a ResNet-18"
        raise DataError(f"{path} does not fit this ResNet-18: there is no place for its {beyond[0]}; {advice}")


def read(path: Path) -> dict[str, Tensor]:
    """Named tensors from a safetensors file, or from a file of torch, of which only tensors are read."""
    from safetensors.torch import load_file

    try:
        with warnings.catch_warnings(action="ignore"):
            found = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except Exception as error:  # torch raises anything where a file is not its own
        if "GLOBAL" in str(error):
            what = "holds more than tensors and is not opened; save the state dict alone, best as .safetensors"
        else:
            what = "holds no weights that can be read; give the state dict of a ResNet-18 as .safetensors or .pth"
        raise DataError(f"{path} {what}") from None
    if not isinstance(found, dict) or not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in found.items()):
        raise DataError(f"{path} holds no named tensors; give the state dict of a ResNet-18")
    return found
