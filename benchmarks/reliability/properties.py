"""What must not matter, measured: the largest change of a probability when a table is written differently."""

import argparse
import json
import warnings
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

import invariance
from invariance.methods import METHODS

Rows = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.str_]]
NAMES = [name for name, cls in METHODS.classes.items() if not cls.oracle]
ORDER = np.random.default_rng(1).permutation(300)
LARGE, LARGE_NAMES = "30,000 rows", ("erm", "irmv1", "rex")
RENAMED = {"a": "site 3", "b": "site 1", "c": "site 2"}


def table(rows: int = 300) -> Rows:
    """Three sites, two columns that tell the label and one cue that changes between sites."""
    random = np.random.default_rng(0)
    y, site = random.integers(0, 2, rows), np.repeat(["a", "b", "c"], rows // 3)
    agrees = random.random(rows) < np.repeat([0.95, 0.8, 0.6], rows // 3)
    columns = [y + random.normal(size=rows), 0.5 * y + random.normal(size=rows), np.where(agrees, y, 1 - y)]
    return np.stack(columns, 1).astype(np.float32), y, site


CHANGES: dict[str, Callable[[Rows], Rows]] = {
    "columns × 2^±66": lambda t: (t[0] * np.array([2.0**66, 2.0**-66, 1], np.float32), t[1], t[2]),
    "columns × 10^±20": lambda t: (t[0] * np.array([1e20, 1e-20, 1], np.float32), t[1], t[2]),
    "columns + 100": lambda t: (t[0] + np.float32(100), t[1], t[2]),
    "columns in another order": lambda t: (t[0][:, ::-1].copy(), t[1], t[2]),
    "environments renamed": lambda t: (t[0], t[1], np.array([RENAMED[name] for name in t[2]])),
    "environments in another order": lambda t: (np.roll(t[0], 100, 0), np.roll(t[1], 100), np.roll(t[2], 100)),
    "rows in another order": lambda t: (t[0][ORDER], t[1][ORDER], t[2][ORDER]),
}
BACK: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "environments in another order": lambda p: np.roll(p, -100),
    "rows in another order": lambda p: p[np.argsort(ORDER)],
}
"""From the predictions of a changed table to those of the rows as they were."""


def probabilities(method: str, rows: Rows, seed: int = 0) -> NDArray[np.float64]:
    model = invariance.InvariantClassifier(method, random_state=seed).fit(rows[0], rows[1], environments=rows[2])
    return np.asarray(model.predict_proba(rows[0])[:, 1], dtype=np.float64)


def pieces() -> list[str]:
    """What is measured by itself."""
    return [*NAMES, LARGE]


def large() -> list[dict[str, object]]:
    """The same for other orders and names of a table beyond full batches; and for another seed."""
    x, y, site = rows = table(30_000)
    order = np.random.default_rng(1).permutation(len(y))
    renamed = np.array([RENAMED[name] for name in site])
    found = []
    for method in LARGE_NAMES:
        expected = probabilities(method, rows)
        changed = {
            "the same again": probabilities(method, rows),
            "environments renamed": probabilities(method, (x, y, renamed)),
            "rows in another order": probabilities(method, (x[order], y[order], site[order]))[np.argsort(order)],
            "another seed": probabilities(method, rows, seed=1),
        }
        found.append({"method": method, **{n: float(np.abs(p - expected).max()) for n, p in changed.items()}})
    return found


def properties(names: list[str]) -> list[dict[str, object]]:
    """The largest change of a probability, for each method and each change of the table."""
    found = []
    for method in names:
        expected = probabilities(method, table())
        row: dict[str, object] = {"method": method}
        for name, change in CHANGES.items():
            changed = probabilities(method, change(table()))
            if name in BACK:
                changed = BACK[name](changed)
            row[name] = float(np.abs(changed - expected).max())
        found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="a method; repeat")
    names = parser.parse_args().only or NAMES
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(json.dumps(large() if names == [LARGE] else properties(names)))


if __name__ == "__main__":
    main()
