"""Labelled rows of several environments: what readers of files give and estimators take."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from invariance.core.inputs import Pixels


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs ``x`` [n, …], labels ``y`` [n], and the environment of each row as an integer code [n] into ``names``.

    Inputs are numbers, or images as bytes. ``weight`` [n] are sample weights, or None where every row counts the same;
    ``notes`` is what a reader noticed.
    """

    x: NDArray[Any] | Pixels
    y: NDArray[Any]
    codes: NDArray[np.int64]
    names: NDArray[Any]
    weight: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, x: NDArray[Any] | Pixels, y: NDArray[Any], environments: NDArray[Any]) -> "Rows":
        """Rows whose ``environments`` [n] are given by name."""
        names, codes = coded(environments)
        return cls(x, y, codes, names)

    def __len__(self) -> int:
        return len(self.y)

    def take(self, mask: NDArray[np.bool_]) -> "Rows":
        """The rows where ``mask`` is true, and their environments."""
        present, codes = np.unique(self.codes[mask], return_inverse=True)
        weight = None if self.weight is None else self.weight[mask]
        return Rows(self.x[mask], self.y[mask], codes, self.names[present], weight)

    @property
    def environments(self) -> NDArray[Any]:
        """The environment of each row by name, [n]."""
        return self.names[self.codes]

    @property
    def counts(self) -> list[int]:
        """The number of rows in each environment, in the order of ``names``."""
        counts: list[int] = np.bincount(self.codes, minlength=len(self.names)).tolist()
        return counts

    @property
    def unit(self) -> str:
        """What one row is, in the plural."""
        return "images" if isinstance(self.x, Pixels) else "rows"


def coded(values: NDArray[Any] | Sequence[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The different values, sorted, and the integer code of each one, [n]; a TypeError where they cannot be sorted."""
    array = np.asarray(values)
    each = array.tolist()
    names = sorted(set(each))
    place = {name: code for code, name in enumerate(names)}
    codes = np.fromiter((place[value] for value in each), dtype=np.int64, count=len(each))
    return np.array(names, dtype=array.dtype), codes
