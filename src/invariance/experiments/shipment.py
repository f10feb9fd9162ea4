"""Benchmarks on their way to other machines: their arrays apart, each sent to a node once."""

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from invariance.core.environment import Benchmark

INLINE_BYTES = 100_000
"""Smaller arrays travel with the benchmark, as Ray sends small values."""

Array = NDArray[Any]


class _Object(NamedTuple):
    kind: type
    values: dict[str, Any]


class _Remote(NamedTuple):
    place: Any
    """Where the array is, in the object store."""
    tensor: bool


class Packer:
    """Takes benchmarks apart. The same array, by its content, is put once, whatever benchmarks have it in common."""

    def __init__(self, put: Callable[[Array], Any]) -> None:
        self.put = put
        self.places: dict[bytes, Any] = {}

    def packed(self, value: Any) -> Any:
        """A benchmark, or a part of one, with places for its large arrays."""
        if isinstance(value, Tensor | np.ndarray):
            array = np.ascontiguousarray(value)
            return value if array.nbytes < INLINE_BYTES else _Remote(self._place(array), isinstance(value, Tensor))
        if is_dataclass(value):
            return _Object(type(value), {each.name: self.packed(getattr(value, each.name)) for each in fields(value)})
        return tuple(self.packed(each) for each in value) if type(value) is tuple else value

    def _place(self, array: Array) -> Any:
        content = hashlib.blake2b(f"{array.dtype} {array.shape}".encode())
        content.update(array.data.cast("B"))
        key = content.digest()
        if key not in self.places:
            self.places[key] = self.put(array)
        return self.places[key]


def unpacked(packed: Any, get: Callable[[Any], Array]) -> Benchmark:
    """The benchmark that was packed; its large arrays stay in the object store, and are not to be written to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writ", UserWarning)
        benchmark: Benchmark = _unpacked(packed, get)
    return benchmark


def _unpacked(packed: Any, get: Callable[[Any], Array]) -> Any:
    match packed:
        case _Object(kind, values):
            return kind(**{name: _unpacked(value, get) for name, value in values.items()})
        case _Remote(place, tensor):
            return torch.from_numpy(get(place)) if tensor else get(place)
        case tuple():
            return tuple(_unpacked(each, get) for each in packed)
    return packed
