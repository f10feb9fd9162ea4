"""What a model leans on: a column is shuffled among the rows of an environment, and its answers are compared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_SITES, MOST_ROWS, FEWEST_ROWS = 12, 2000, 50
BUDGET = 4_000_000
"""Rows that are predicted for each model, at most."""

Answers = Callable[[NDArray[np.float32]], NDArray[np.int64]]


@dataclass(frozen=True)
class Leaning:
    """One column and one model: which share of its answers change when the column is shuffled, over all environments
    and in each, and by how much accuracy falls in each. Where a column misleads, accuracy rises.
    """

    column: str
    changed: float
    changed_by_site: dict[str, float]
    drop_by_site: dict[str, float]


def leanings(
    answers: Answers,
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    environment: NDArray[np.int64],
    names: Sequence[str],
    columns: Sequence[tuple[str, slice]],
    seed: int = 0,
) -> tuple[Leaning, ...]:
    """Every column, in its order; of many environments the largest, and of many rows some."""
    sizes = np.bincount(environment, minlength=len(names))
    shown = [int(e) for e in np.argsort(-sizes, kind="stable")[:MOST_SITES] if sizes[e]]
    most = min(MOST_ROWS, max(FEWEST_ROWS, BUDGET // (len(columns) * len(shown))))
    changed: list[dict[str, float]] = [{} for _ in columns]
    drops: list[dict[str, float]] = [{} for _ in columns]
    for e in shown:
        rng = np.random.default_rng([seed, e])
        rows = np.flatnonzero(environment == e)
        rows = np.sort(rng.choice(rows, most, replace=False)) if len(rows) > most else rows
        here, labels, before = x[rows], y[rows], answers(x[rows])
        for i, (_, place) in enumerate(columns):
            mixed = here.copy()
            mixed[:, place] = here[rng.permutation(len(here)), place]
            after = answers(mixed)
            changed[i][names[e]] = float((after != before).mean())
            drops[i][names[e]] = float((before == labels).mean() - (after == labels).mean())
    return tuple(
        Leaning(name, float(np.mean(list(c.values()))), c, d)
        for (name, _), c, d in zip(columns, changed, drops, strict=True)
    )


def most_apart(model: Sequence[Leaning], other: Sequence[Leaning], many: int) -> list[tuple[Leaning, Leaning]]:
    """The columns on which the other model leans more than this one, or less, farthest apart first."""
    pairs: list[tuple[Leaning, Leaning]] = list(zip(model, other, strict=True))
    return sorted(pairs, key=lambda pair: -abs(pair[1].changed - pair[0].changed))[:many]


def answers_of(predict: Callable[[Any], Any]) -> Answers:
    """The number of the most probable class of each row."""
    return lambda x: np.asarray(predict(x)).argmax(1)
