"""Where tensors are: the CPU, or a GPU that gives the same numbers every time."""

import os

import torch
from torch import nn

from invariance.core import ranks
from invariance.core.errors import BadValue

DEVICES = ("cpu", "cuda", "mps", "auto")


def resolved(name: str) -> torch.device:
    """The device of this name, ready to use; ``auto`` is a GPU where there is one, else the CPU.

    Each of several ranks on a machine has a GPU of its own. A GPU is set to deterministic algorithms, so that a run
    gives the same numbers every time, on one kind of GPU.
    """
    chosen = _best() if name == "auto" else name
    try:
        device = torch.device(chosen)
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", ranks.local_rank())
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError):
        raise BadValue(f"device {name!r} is not available; 'cpu' always is, and 'auto' takes what there is") from None
    if ranks.count() > 1 and device.type not in ("cpu", "cuda"):
        raise BadValue(f"several ranks cannot train on device {name!r}; use cpu or cuda")
    if device.type != "cpu":
        _be_deterministic()
    return device


def device_of(module: nn.Module) -> torch.device:
    """Where a module's parameters are; the CPU, if it has none."""
    return next((p.device for p in module.parameters()), torch.device("cpu"))


def _best() -> str:
    found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return next((name for name, here in found.items() if here), "cpu")


def _be_deterministic() -> None:
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS starts
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
