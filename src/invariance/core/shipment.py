"""Samples on their way to other machines: their arrays apart, each sent to a node once."""

import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from invariance.core.inputs import StoredRows
from invariance.core.ray_cluster import connect
from invariance.core.row_file import RowFile

INLINE_BYTES = 100_000
"""Smaller arrays travel with what they belong to."""

Array = NDArray[Any]
Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")


class _Object(NamedTuple):
    kind: type
    values: dict[str, Any]


class _Remote(NamedTuple):
    place: Any
    """Where the array is, in the object store."""
    tensor: bool


class Packer:
    """Takes values apart. The same array, by its content, is put once, whatever values have it in common."""

    def __init__(self, put: Callable[[Array], Any]) -> None:
        self.put = put
        self.places: dict[bytes, Any] = {}

    def packed(self, value: Any) -> Any:
        """A benchmark, an environment, or whatever dataclass holds them, with places for its large arrays."""
        if isinstance(value, Tensor | np.ndarray):
            array = np.ascontiguousarray(value)
            return value if array.nbytes < INLINE_BYTES else _Remote(self._place(array), isinstance(value, Tensor))
        if isinstance(value, StoredRows) and any(isinstance(array, RowFile) for array in value.arrays):
            value = type(value).of(value.tensor().numpy())  # other machines do not have the file
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


def unpacked(packed: Any, get: Callable[[Any], Array]) -> Any:
    """The value that was packed; its large arrays stay in the object store, and are not to be written to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writ", UserWarning)
        return _unpacked(packed, get)


def _unpacked(packed: Any, get: Callable[[Any], Array]) -> Any:
    match packed:
        case _Object(kind, values):
            return kind(**{name: _unpacked(value, get) for name, value in values.items()})
        case _Remote(place, tensor):
            return torch.from_numpy(get(place)) if tensor else get(place)
        case tuple():
            return tuple(_unpacked(each, get) for each in packed)
    return packed


def mapped(function: Callable[[Shared, Item], Result], shared: Shared, items: Sequence[Item]) -> list[Result]:
    """``function(shared, item)`` of every item, by tasks of one core each on the Ray cluster that is connected."""
    ray = connect()

    @ray.remote(num_cpus=1)  # type: ignore[untyped-decorator]
    def task(shared: Shared, packed: Any) -> Result:
        torch.set_num_threads(1)
        return function(shared, unpacked(packed, ray.get))

    packer, place = Packer(ray.put), ray.put(shared)
    found: list[Result] = ray.get([task.remote(place, packer.packed(item)) for item in items])
    return found
