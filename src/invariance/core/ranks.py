r"""Processes that train one model together. Each, a *rank*, has a copy of the weights and some rows of every batch.

A batch's averages are sums over ranks (:func:`total`), so every rank knows the loss L of the whole batch, whatever it
is made of. Autograd gives gradients of Σ_r L_r, where L_r = L is the loss on rank r. So the gradient of L by something
that every rank has a copy of is the mean over ranks of what autograd gives on each (:func:`average`).

Outside of :func:`joined` there is one rank, and nothing is sent.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous

from invariance.core.errors import RankLost
from invariance.core.shard import Shard

LOST = (
    "another rank ended, or the run was stopped; the same command resumes from the last checkpoint, with any number of "
    "ranks"
)
_STORE: list[Store] = []


def count() -> int:
    """The number of ranks."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Which of them this process is, from 0 on."""
    return dist.get_rank() if dist.is_initialized() else 0


def leads() -> bool:
    """Whether this is the rank that measures, prints and writes files."""
    return rank() == 0


@contextmanager
def joined(meeting: tuple[Store, int, int] | None = None) -> Iterator[None]:
    """Meet the other ranks: at a ``meeting``, a store with the number of this rank and of all, or as torchrun says.

    If one of them ends, the others raise :class:`RankLost`: their connections close, or torchrun terminates them.
    """
    store, own, many = meeting or next(rendezvous("env://"))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    before = signal.signal(signal.SIGTERM, _terminated)
    dist.init_process_group(backend, store=store, rank=own, world_size=many)
    _STORE.append(store)
    try:
        yield
    finally:
        _STORE.clear()
        dist.destroy_process_group()
        signal.signal(signal.SIGTERM, before)


def _terminated(*_: Any) -> None:
    raise RankLost(LOST)


def local_rank() -> int:
    """Which of the ranks on this machine this process is."""
    return int(os.environ.get("LOCAL_RANK", "0")) if count() > 1 else 0


def reports_first() -> bool:
    """Whether no other rank has reported an error so far: what ends one of them ends all, and one line says so.

    A rank that reports ends by itself, and torchrun, which terminates all of them, does not interrupt it any more.
    """
    if not _STORE:
        return True
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        return _STORE[0].add("reported", 1) == 1
    except RuntimeError:  # the store has gone with the rank that held it
        return True


@contextmanager
def leader_first() -> Iterator[None]:
    """The leader does something before the others: it fetches files or fills a cache, which they then find."""
    if count() > 1 and not leads():
        _collective(torch.zeros(1))
    yield
    if count() > 1 and leads():
        _collective(torch.zeros(1))


def _collective(x: Tensor) -> None:
    """Sum over ranks, in place."""
    try:
        dist.all_reduce(x)
    except RuntimeError:
        raise RankLost(LOST) from None


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        found = x.clone(memory_format=torch.contiguous_format)
        _collective(found)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return total(grads[0])


def total(x: Tensor) -> Tensor:
    """Σ over ranks of a tensor, the same bits on each; differentiable, any number of times."""
    return _Total.apply(x)  # type: ignore[no-untyped-call]


def average(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The mean over ranks of each tensor, all in one message."""
    if count() == 1 or not tensors:
        return list(tensors)
    flat = torch.cat([t.flatten() for t in tensors])
    _collective(flat)
    parts = (flat / count()).split([t.numel() for t in tensors])
    return [part.view_as(t) for t, part in zip(tensors, parts, strict=True)]


def from_leader(make: Callable[[], Tensor | None], like: Tensor) -> Tensor | None:
    """What the leader makes, on every rank: a tensor of the shape and type of ``like``, or None."""
    if count() == 1:
        return make()
    made = make() if leads() else None
    if not total(torch.tensor(float(made is not None))):
        return None
    return total(torch.zeros_like(like) if made is None else made)


def leaders_bytes(content: bytes) -> bytes:
    """What the leader gives, on every rank."""
    if count() == 1:
        return content
    size = int(total(torch.tensor(len(content) if leads() else 0)))
    own = torch.zeros(size, dtype=torch.uint8)
    if leads() and size:
        own = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    return total(own).numpy().tobytes()


def shard(counts: Sequence[int]) -> Shard | None:
    """The part of a batch on this rank, with these rows of each environment; None where there is one rank alone."""
    return Shard.of(counts, rank(), count()) if count() > 1 else None
