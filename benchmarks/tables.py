"""A large table with many environments: 1,000,000 rows, 50 columns, and 2 or 1,000 environments.

Fits ``InvariantClassifier`` to the same rows, once for each number of environments and each way to choose a method, and
counts processor time by row. Memory is the most that the whole process ever held, the table (0.4 GB) included. With
``--quick``, 50,000 rows.

Aims: a row of 1,000 environments costs at most 1.3 times a row of 2; less than 3 GB.
"""

import resource
import time

import numpy as np
import torch
from harness import Options, show

from invariance import InvariantClassifier

COLUMNS, COUNTS, METHODS = 50, (2, 1000), ("erm", "rex", "irmv1", "auto")


def seconds(method: str, x: np.ndarray, y: np.ndarray, environments: int) -> float:
    """Processor time of one fit."""
    site = np.char.add("site ", (np.arange(len(y)) % environments).astype(str))
    start = time.process_time()
    InvariantClassifier(method).fit(x, y, environments=site)
    return time.process_time() - start


def main() -> None:
    options = Options.parse(__doc__)
    torch.set_num_threads(2)
    rows = 50_000 if options.quick else 1_000_000
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, COLUMNS))
    y = np.where(x[:, 0] + rng.normal(size=rows) > 0, "yes", "no")
    seconds("erm", x[:1000], y[:1000], 2)  # to import and to warm up
    table: list[dict[str, object]] = []
    for method in METHODS:
        few, many = (seconds(method, x, y, count) for count in COUNTS)
        times = {
            f"{count} environments, µs a row": 1e6 * s / rows for count, s in zip(COUNTS, (few, many), strict=True)
        }
        table.append({"method": method, **times, "ratio": many / few})
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    note = (
        f"Most memory: {most:.2f} GB. With 2 environments auto has nothing to choose by, so its ratio counts choosing."
    )
    show(f"A table of {rows:,} rows and {COLUMNS} columns", table, note, options)


if __name__ == "__main__":
    main()
