"""Labelled rows of several environments: what readers of files give and estimators take."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from invariance.core.inputs import Pixels, StoredRows
from invariance.core.seeding import generator

SAMPLE_BYTES = 128 << 20
"""Of a sample of rows that are too many for memory."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs ``x`` [n, …], labels ``y`` [n], and the environment of each row as an integer code [n] into ``names``.

    Inputs are numbers, or images as bytes, in memory or stored. ``weight`` [n] are sample weights, or None where every
    row counts the same; ``notes`` is what a reader noticed. Where ``classes`` are given, labels are codes into them.
    ``of_images`` says that numbers stand for images. ``parts`` are the inputs that belong together, such as the levels
    of a category, by name; without any, every input stands for itself.
    """

    x: NDArray[Any] | StoredRows
    y: NDArray[Any]
    codes: NDArray[np.integer[Any]]
    names: NDArray[Any]
    weight: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()
    classes: NDArray[Any] | None = None
    of_images: bool = False
    parts: tuple[tuple[str, slice], ...] = ()

    @classmethod
    def of(cls, x: NDArray[Any] | StoredRows, y: NDArray[Any], environments: NDArray[Any]) -> "Rows":
        """Rows whose ``environments`` [n] are given by name."""
        names, codes = coded(environments)
        return cls(x, y, codes, names)

    def __len__(self) -> int:
        return len(self.y)

    def take(self, mask: NDArray[np.bool_]) -> "Rows":
        """The rows where ``mask`` is true, and their environments."""
        present, codes = np.unique(self.codes[mask], return_inverse=True)
        weight = None if self.weight is None else self.weight[mask]
        taken = Rows(self.x[mask], self.y[mask], codes, self.names[present], weight, classes=self.classes)
        return replace(taken, of_images=self.of_images, parts=self.parts)

    def sample(self, rows: int, seed: int = 0) -> "Rows":
        """Numbers of a stored table, in memory with their labels: at most about ``rows``; others are as they are.

        Fewer where they would take more than ``SAMPLE_BYTES``.
        """
        if isinstance(self.x, Pixels) or not isinstance(self.x, StoredRows):
            return self
        bytes_per_row = self.x.dtype.itemsize * math.prod(self.x.shape[1:])
        share = min(1.0, rows / len(self), SAMPLE_BYTES / (bytes_per_row * len(self)))
        mask = (torch.rand(len(self), generator=generator(seed, "sample")) < share).numpy()
        drawn, x = self.take(mask), self.x[mask]
        y = drawn.y if drawn.classes is None else drawn.classes[drawn.y]
        return replace(drawn, x=x.tensor().numpy(), y=y, classes=None)

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
        return "images" if self.of_images or isinstance(self.x, Pixels) else "rows"


def coded(values: NDArray[Any] | Sequence[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The different values, sorted, and the integer code of each one, [n]; a TypeError where they cannot be sorted."""
    array = np.asarray(values)
    each = array.tolist()
    names = sorted(set(each))
    place = {name: code for code, name in enumerate(names)}
    codes = np.fromiter((place[value] for value in each), dtype=np.int64, count=len(each))
    return np.array(names, dtype=array.dtype), codes
