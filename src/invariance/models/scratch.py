"""Memory that the updates of a training use again.

Every update asks for the same tensors. What the system takes back and gives again, page by page, costs a full batch a
tenth of its time.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor


class Scratch:
    """Tensors that nobody uses at present, by what they are."""

    def __init__(self) -> None:
        self.free: defaultdict[object, list[Tensor]] = defaultdict(list)

    def take(self, shape: Sequence[int], like: Tensor) -> Tensor:
        """A tensor of the kind of another, whose content is whatever was there."""
        free = self.free[(*shape, like.dtype, like.device)]
        return free.pop() if free else like.new_empty(shape)

    def give(self, tensors: Sequence[Tensor]) -> None:
        """Tensors that nobody uses any more."""
        for tensor in tensors:
            self.free[(*tensor.shape, tensor.dtype, tensor.device)].append(tensor)


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


def borrowed() -> Borrowed:
    """From the scratch that is in use; without one, memory is fresh."""
    return Borrowed(_current.get() or Scratch())
