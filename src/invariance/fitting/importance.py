"""Permutation importance: a column is shuffled among the rows of an environment, and predictions are compared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from invariance.evaluation.intervals import of_mean

MAX_ENVIRONMENTS, MAX_ROWS, MIN_ROWS = 12, 2000, 50
"""The largest environments are used, and ``MIN_ROWS`` to ``MAX_ROWS`` rows of each, if it has as many."""
MAX_PREDICTIONS = 4_000_000
"""The largest number of rows that are predicted for each model."""

Predict = Callable[[NDArray[np.float32]], NDArray[np.int64]]


@dataclass(frozen=True)
class PermutationImportance:
    """One column and one model: the share of predictions that change when the column is shuffled.

    ``changed`` is the mean over environments; ``drop_by_environment`` says by how much accuracy falls in each, and
    ``interval_by_environment`` is its 95 % interval over rows. Where a column misleads, accuracy rises.
    """

    column: str
    changed: float
    changed_by_environment: dict[str, float]
    drop_by_environment: dict[str, float]
    interval_by_environment: dict[str, tuple[float, float]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data, under the keys that ``invariance fit --json`` has had from the start."""
        return {
            "column": self.column,
            "changed": self.changed,
            "changed_by_site": self.changed_by_environment,
            "drop_by_site": self.drop_by_environment,
            "drop_interval_by_site": self.interval_by_environment,
        }


def permutation_importances(
    predict: Predict,
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    codes: NDArray[np.integer[Any]],
    names: Sequence[str],
    columns: Sequence[tuple[str, slice]],
    seed: int = 0,
) -> tuple[PermutationImportance, ...]:
    """Every column, in the given order; large data are subsampled. Data without columns have none."""
    if not columns:
        return ()
    sizes = np.bincount(codes, minlength=len(names))
    used = [int(e) for e in np.argsort(-sizes, kind="stable")[:MAX_ENVIRONMENTS] if sizes[e]]
    max_rows = min(MAX_ROWS, max(MIN_ROWS, MAX_PREDICTIONS // (len(columns) * len(used))))
    changed: list[dict[str, float]] = [{} for _ in columns]
    drops: list[dict[str, float]] = [{} for _ in columns]
    intervals: list[dict[str, tuple[float, float]]] = [{} for _ in columns]
    for e in used:
        rng = np.random.default_rng([seed, e])
        rows = np.flatnonzero(codes == e)
        rows = np.sort(rng.choice(rows, max_rows, replace=False)) if len(rows) > max_rows else rows
        inputs, labels, before = x[rows], y[rows], predict(x[rows])
        for i, (_, place) in enumerate(columns):
            shuffled = inputs.copy()
            shuffled[:, place] = inputs[rng.permutation(len(inputs)), place]
            after = predict(shuffled)
            changed[i][names[e]] = float((after != before).mean())
            lost = (before == labels).astype(np.float64) - (after == labels)
            drops[i][names[e]] = float(lost.mean())
            intervals[i][names[e]] = of_mean(lost, None, share=False)
    return tuple(
        PermutationImportance(name, float(np.mean(list(c.values()))), c, d, i)
        for (name, _), c, d, i in zip(columns, changed, drops, intervals, strict=True)
    )


def largest_differences(
    model: Sequence[PermutationImportance], other: Sequence[PermutationImportance], columns: int
) -> list[tuple[PermutationImportance, PermutationImportance]]:
    """Columns whose importance differs most between two models, the largest difference first, at most ``columns``."""
    pairs: list[tuple[PermutationImportance, PermutationImportance]] = list(zip(model, other, strict=True))
    return sorted(pairs, key=lambda pair: -abs(pair[1].changed - pair[0].changed))[:columns]


def predicted_class(probabilities: Callable[[Any], Any]) -> Predict:
    """The index of the most probable class of each row."""
    return lambda x: np.asarray(probabilities(x)).argmax(1)
