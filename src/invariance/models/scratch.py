"""What the updates of a training use again: memory, and inputs behind layers that never change.

Every update asks for the same tensors. What the system takes back and gives again, page by page, costs a full batch a
tenth of its time, and Fishr as much of a small one. A full batch of a table is standardised once, which saves a sixth.
"""

import ctypes
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache

import torch
from torch import Tensor, nn

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Names of malloc.h, where glibc has them."""
KEPT_BYTES = 64 * 1024**2


@cache
def keep_freed_memory() -> None:
    """Tell the C library, once, to keep up to 64 MB of what an update frees for the next; glibc would give it back."""
    with suppress(AttributeError, OSError, TypeError):  # other libraries are left as they are
        for threshold, size in ((M_TRIM_THRESHOLD, KEPT_BYTES), (M_MMAP_THRESHOLD, KEPT_BYTES // 2)):
            ctypes.CDLL(None).mallopt(threshold, size)


class FixedLayer(nn.Module):
    """A layer without parameters, whose output for a row depends on that row alone and is always the same."""


class Scratch:
    """Tensors that nobody uses at present, by what they are; ``full`` are the inputs of a full batch, if it has any."""

    def __init__(self, full: object = None) -> None:
        self.free: defaultdict[object, list[Tensor]] = defaultdict(list)
        numbers = isinstance(full, Tensor) and full.is_floating_point() and not full.requires_grad
        self.full = full if numbers else None
        self.behind: tuple[nn.Module, nn.Module, Tensor] | None = None
        """Some features, those of their layers that are not fixed, and the inputs of these."""

    def take(self, shape: Sequence[int], like: Tensor) -> Tensor:
        """A tensor of the kind of another, whose content is whatever was there."""
        free = self.free[(*shape, like.dtype, like.device)]
        return free.pop() if free else like.new_empty(shape)

    def give(self, tensors: Sequence[Tensor]) -> None:
        """Tensors that nobody uses any more."""
        for tensor in tensors:
            self.free[(*tensor.shape, tensor.dtype, tensor.device)].append(tensor)

    def behind_fixed_layers(self, features: nn.Module, x: Tensor) -> tuple[nn.Module, Tensor]:
        """The layers that follow the fixed ones at the beginning, and their inputs."""
        if not self.behind or self.behind[0] is not features:
            layers = list(_layers(features))
            while layers and isinstance(layers[0], FixedLayer) and not has_hooks(layers[0]):
                with torch.no_grad():
                    x = layers.pop(0)(x)
            self.behind = features, nn.Sequential(*layers), x
        return self.behind[1:]


def _layers(module: nn.Module) -> Iterator[nn.Module]:
    """One after another; a sequence of layers counts as they do, if nobody wants to be called when it is."""
    if type(module) is nn.Sequential and not has_hooks(module):
        for part in module:
            yield from _layers(part)
    else:
        yield module


def has_hooks(module: nn.Module) -> bool:
    """Whether somebody wants to be called when the module is."""
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


class Borrowed:
    """Tensors of a scratch, given back when nobody holds this any more."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch
        self.tensors: list[Tensor] = []

    def take(self, shape: Sequence[int], like: Tensor) -> Tensor:
        """One more."""
        self.tensors.append(self.scratch.take(shape, like))
        return self.tensors[-1]

    def __del__(self) -> None:
        self.scratch.give(self.tensors)


_current: ContextVar[Scratch | None] = ContextVar("scratch", default=None)


@contextmanager
def scratch_of(scratch: Scratch) -> Iterator[None]:
    """Use this one meanwhile."""
    token = _current.set(scratch)
    try:
        yield
    finally:
        _current.reset(token)


def behind_fixed_layers(features: nn.Module, x: object) -> tuple[nn.Module, Tensor] | None:
    """Of a full batch in training: the layers that follow the fixed ones at the beginning, and their inputs."""
    scratch = _current.get()
    if not scratch or not isinstance(x, Tensor) or x is not scratch.full:
        return None
    return scratch.behind_fixed_layers(features, x)


def borrowed() -> Borrowed:
    """From the scratch that is in use; without one, memory is fresh."""
    return Borrowed(_current.get() or Scratch())
