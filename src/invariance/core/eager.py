"""Whether torch carries out operations as they are called."""

import torch
from torch import Tensor


def eager() -> bool:
    """Not recorded by a compiler or a trace, and not transformed by ``torch.func``; then operations of ours may run."""
    recorded = torch.compiler.is_compiling() or torch._C._is_tracing()
    return not (recorded or torch._C._are_functorch_transforms_active())


def under_autocast(values: Tensor) -> bool:
    """Whether somebody's autocast chooses the types in which operations on these values are carried out."""
    device = values.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
