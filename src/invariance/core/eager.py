"""Whether torch carries out operations as they are called."""

import torch


def eager() -> bool:
    """Not recorded by a compiler or a trace, and not transformed by ``torch.func``; then operations of ours may run."""
    recorded = torch.compiler.is_compiling() or torch._C._is_tracing()
    return not (recorded or torch._C._are_functorch_transforms_active())
