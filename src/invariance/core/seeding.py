"""Random numbers as a function of a seed and a purpose."""

import hashlib

import torch


def generator(seed: int, *purpose: str | float) -> torch.Generator:
    """Random numbers as a function of a seed and what they are for, so that nothing has to be remembered.

    Two purposes never share a stream, and a run that resumes at step t draws what it would have drawn.
    """
    digest = hashlib.blake2b(repr((int(seed), *purpose)).encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)
