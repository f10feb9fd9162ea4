"""Files that are looked at once: a command takes them as it finds them first, however many runs it names."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
_seen: ContextVar[dict[Hashable, Any] | None] = ContextVar("seen", default=None)


@contextmanager
def one_look() -> Iterator[None]:
    """Inside, what :func:`once` computes is kept; elsewhere files may change from one line to the next."""
    token = _seen.set({})
    try:
        yield
    finally:
        _seen.reset(token)


def once(what: Hashable, compute: Callable[[], T]) -> T:
    """What ``compute`` gives, or gave for the same ``what`` in the same look."""
    seen = _seen.get()
    if seen is None:
        return compute()
    if what not in seen:
        seen[what] = compute()
    found: T = seen[what]
    return found
