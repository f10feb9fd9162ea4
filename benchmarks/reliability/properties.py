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
RENAMED = {"a": "site 3", "b": "site 1", "c": "site 2"}


def table() -> Rows:
    """Three sites, two columns that tell the label and one cue that changes between sites."""
    random = np.random.default_rng(0)
    y, site = random.integers(0, 2, 300), np.repeat(["a", "b", "c"], 100)
    agrees = random.random(300) < np.repeat([0.95, 0.8, 0.6], 100)
    columns = [y + random.normal(size=300), 0.5 * y + random.normal(size=300), np.where(agrees, y, 1 - y)]
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


def probabilities(method: str, rows: Rows) -> NDArray[np.float64]:
    model = invariance.InvariantClassifier(method).fit(rows[0], rows[1], environments=rows[2])
    return np.asarray(model.predict_proba(rows[0])[:, 1], dtype=np.float64)


def pieces() -> list[str]:
    """What is measured by itself."""
    return list(NAMES)


def properties(names: list[str]) -> list[dict[str, object]]:
    """The largest change of a probability, for each method and each change of the table."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
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
    print(json.dumps(properties(parser.parse_args().only or NAMES)))


if __name__ == "__main__":
    main()
