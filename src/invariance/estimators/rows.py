"""Labelled samples as estimators take them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from invariance.core.inputs import Pixels


@dataclass(frozen=True, eq=False)
class Rows:
    """Samples ``x`` [n, …], their classes ``y`` [n] and ``environments`` [n] by name, and what was noticed.

    Samples are rows of numbers, or images as bytes.
    """

    x: NDArray[np.float32] | Pixels
    y: NDArray[Any]
    environments: NDArray[Any]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, kept: NDArray[np.bool_]) -> "Rows":
        """Some of them."""
        return Rows(self.x[kept], self.y[kept], self.environments[kept])

    @property
    def unit(self) -> str:
        """What they are called."""
        return "images" if isinstance(self.x, Pixels) else "rows"
