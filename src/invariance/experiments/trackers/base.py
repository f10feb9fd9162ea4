"""What a tracker is: it opens a run, logs numbers by step, and closes it."""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from invariance.core.errors import BadValue
from invariance.training.selection import Checkpoint


@dataclass(config=ConfigDict(extra="forbid"))
class Tracker(ABC):
    """Writes runs to ``folder``, one after another, without a network."""

    package: ClassVar[str]
    """The module that it needs; the extra of this package has the tracker's name."""
    viewer: ClassVar[str]
    """The command that shows what was written; {folder} stands for where."""
    environ: ClassVar[Mapping[str, str]] = {}
    """What must be set before the package is imported: no telemetry, no network."""

    folder: Path

    def __post_init__(self) -> None:
        self.state: Any = None

    def ready(self) -> Self:
        """The tracker, if its package is installed."""
        try:
            os.environ.update(self.environ)
            import_module(self.package)
        except ModuleNotFoundError as error:
            extra = type(self).__module__.rpartition(".")[2]
            raise BadValue(f"--track {extra} needs {error.name}: pip install 'invariance[{extra}]'") from None
        return self

    @abstractmethod
    def open(self, name: str, config: Mapping[str, str]) -> None:
        """Begin a run with everything that decides it."""

    @abstractmethod
    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers at a checkpoint."""

    @abstractmethod
    def close(self, status: str) -> None:
        """End the run."""


def metrics(checkpoint: Checkpoint) -> dict[str, float]:
    """The numbers of a checkpoint by name; those that are not finite are left out."""
    named = {"loss": checkpoint.loss, "collapsed": float(checkpoint.collapsed)}
    for part in ("train", "validation", "test"):
        scores = getattr(checkpoint, part)
        named |= {f"{part}/mean": scores.mean, f"{part}/worst": scores.worst, f"{part}/gap": scores.gap}
    if checkpoint.risk is not None:
        named["validation/risk"] = checkpoint.risk
    if checkpoint.homogeneity is not None:
        named["validation/homogeneity"] = checkpoint.homogeneity
    if (found := checkpoint.diagnostics) is not None:
        named |= {"logit_scale": found.logit_scale, "feature_norm": found.feature_norm, "head_norm": found.head_norm}
        named |= {} if found.penalty is None else {"penalty": found.penalty}
        named |= {f"risk/{name}": risk for name, risk in found.risks.items()}
    return {name: float(value) for name, value in named.items() if math.isfinite(value)}
