"""Torch's threads by the size of the work: on small matrices, several are slower than one."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

MIN_MULTIPLICATIONS = 10**9
"""In one matrix product; with fewer, one thread is used."""


@contextmanager
def threads_for(multiplications: int) -> Iterator[None]:
    """One thread while the largest matrix product is small; otherwise as many as torch has."""
    before = torch.get_num_threads()
    if multiplications < MIN_MULTIPLICATIONS:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
