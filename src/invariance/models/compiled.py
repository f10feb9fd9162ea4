"""Features as torch compiles them."""

import os
import shutil
import sys

import torch
from torch import Tensor, nn

from invariance.core.errors import BadValue

CXX = "clang++" if sys.platform == "darwin" else "g++"
"""The compiler that torch takes on a CPU of Linux or macOS where CXX names no other."""


def compile_features(features: nn.Module, device: str) -> None:
    """Have torch compile a module at its first call. A copy of it is not compiled, and its state keeps its names."""
    compiler = os.environ.get("CXX", CXX)
    if device == "cpu" and not shutil.which(compiler):
        raise BadValue(f"recipe.compile needs a C++ compiler, and there is no {compiler!r}; install one, or set CXX")

    def called(x: Tensor) -> Tensor:  # torch compiles no module whose forward is its own, such as nn.Sequential
        return features._call_impl(x)

    features._compiled_call_impl = torch.compile(called)


def is_compiled(module: nn.Module) -> bool:
    """Whether torch compiles this module when it is called."""
    return module._compiled_call_impl is not None
