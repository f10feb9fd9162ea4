"""What a number was made with: versions and machine."""

import os
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from invariance import __version__

Provenance = dict[str, dict[str, Any]]


@cache
def provenance() -> Provenance:
    """Versions of what computes, and the kind of machine; nothing that names a person or a place."""
    packages = {name: version(name) for name in ("torch", "numpy", "scikit-learn")}
    return {
        "versions": {"invariance": __version__, "python": platform.python_version(), **packages},
        "machine": {"system": platform.system(), "processor": _processor(), "cores": os.cpu_count()},
    }


def cores() -> int:
    """How many processes this machine, or what it lets us use of it, runs at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    """The processor's name where Linux tells it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
