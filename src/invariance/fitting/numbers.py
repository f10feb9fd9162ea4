"""The errors of a regression in each environment."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from invariance.core.rows import Rows


class NumberScore(NamedTuple):
    """RMSE and mean absolute error, in units of the label, and R² (NaN where the label does not vary)."""

    rmse: float
    mae: float
    r2: float

    def to_json(self) -> dict[str, Any]:
        """Plain data; R² is None where it is not defined."""
        return {**self._asdict(), "r2": None if np.isnan(self.r2) else self.r2}


class NumberSums:
    """What scores are computed from, summed batch by batch: rows of [n, Σe², Σ|e|, Σy, Σy²] by environment."""

    def __init__(self) -> None:
        self.sums: dict[str, NDArray[np.float64]] = {}

    @property
    def samples(self) -> Counter[str]:
        """The number of rows in each environment."""
        return Counter({name: int(each[0]) for name, each in self.sums.items()})

    def add(self, answers: NDArray[np.float64], rows: Rows) -> None:
        """Add some more rows."""
        y = rows.y.astype(np.float64)
        error = answers[:, 0] - y
        terms = np.column_stack([np.ones_like(y), error**2, np.abs(error), y, y**2])
        for code, name in enumerate(rows.names.tolist()):
            self.sums[name] = self.sums.get(name, np.zeros(5)) + terms[rows.codes == code].sum(0)

    def scores(self) -> dict[str, NumberScore]:
        """Of every environment with rows, sorted by name."""
        return {name: _score(*self.sums[name]) for name in sorted(self.sums) if self.sums[name][0]}


def _score(rows: float, squares: float, absolute: float, total: float, total_squares: float) -> NumberScore:
    spread = total_squares - total**2 / rows
    r2 = 1 - squares / spread if spread > 1e-12 * total_squares else float("nan")
    return NumberScore(float(np.sqrt(squares / rows)), float(absolute / rows), float(r2))
