"""Large tables, by the commands that people use: a million rows of a thousand sites, and a file larger than memory.

``invariance fit`` reads a Parquet file of 1,000,000 rows and 50 columns from disk, once as rows of 2 environments and
once as rows of 1,000. ``invariance predict`` reads a CSV file of 5 GB, and one of a tenth of it, with 2 GB of memory
available. Every command is a process of its own. What counts is its processor time, without the time that importing
packages takes, and the most memory that it ever held, as the system counts them. With ``--quick``, 50,000 rows and
100 MB.

Aims: a row of 1,000 environments costs at most 1.3 times a row of 2; less than 3 GB; prediction needs no more memory
the larger a file is.
"""

import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from harness import Options, show
from pyarrow import csv, parquet

COLUMNS, COUNTS = 50, (2, 1000)
WAYS = {
    "erm": ("--method", "erm", "--no-report"),
    "rex": ("--method", "rex", "--no-report"),
    "rex, rows in a file": ("--method", "rex", "--no-report", "--memory", "0"),
    "irmv1": ("--method", "irmv1", "--no-report"),
    "auto": ("--no-report",),
    "auto, with its report": (),
}
CHUNK_ROWS = 50_000
MEMORY = 2 << 30
"""Bytes that a prediction may allocate."""


@dataclass(frozen=True)
class Cost:
    """Processor seconds of a process, and its peak memory, in bytes."""

    seconds: float
    memory: int


def measured(*command: str | Path, limit: int | None = None) -> Cost:
    """Run a command of Python in a process of its own, which may allocate no more than ``limit`` bytes."""

    def confine() -> None:
        if limit:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    child = subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        preexec_fn=confine,
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {child.returncode}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def chunk(start: int, rows: int) -> pa.Table:
    """Some rows of the table. Sites are no more than names: one rule holds at all of them."""
    rng = np.random.default_rng(start)
    x = rng.normal(size=(COLUMNS, rows)).astype(np.float32)
    label = np.where(x[0] + rng.normal(size=rows) > 0, "yes", "no")
    number = np.arange(start, start + rows)
    sites = {f"of {count}": np.char.add("site ", (number % count).astype(str)) for count in COUNTS}
    return pa.table({**{f"x{i}": column for i, column in enumerate(x)}, **sites, "sick": label})


def fits(folder: Path, rows: int, options: Options) -> Path:
    """Time and memory of ``fit``; leaves a model behind."""
    path = folder / "train.parquet"
    with parquet.ParquetWriter(path, chunk(0, 1).schema) as file:
        for start in range(0, rows, CHUNK_ROWS):
            file.write_table(chunk(start, min(CHUNK_ROWS, rows - start)))
    start_up = measured("-c", "import sklearn, torch, invariance.fitting, invariance.tabular.labelled_rows").seconds
    table: list[dict[str, object]] = []
    for name, way in WAYS.items():
        costs = []
        for count, other in zip(COUNTS, reversed(COUNTS), strict=True):
            roles = ("--label", "sick", "--environment", f"of {count}", "--ignore", f"of {other}")
            costs.append(measured("-m", "invariance", "fit", path, *roles, *way, "-o", folder / "model", "--overwrite"))
        few, many = (cost.seconds - start_up for cost in costs)
        times = {
            f"{count} environments, µs per row": 1e6 * s / rows for count, s in zip(COUNTS, (few, many), strict=True)
        }
        memory = {f"{count} environments, GB": cost.memory / 1e9 for count, cost in zip(COUNTS, costs, strict=True)}
        table.append({"method": name, **times, "ratio": many / few, **memory})
    note = (
        f"Importing takes {start_up:.1f} s more. With 2 environments there is nothing to choose by or to leave out, so "
        "the last two ratios count choosing and the report."
    )
    show(f"invariance fit: {rows:,} rows and {COLUMNS} columns of Parquet", table, note, options, "tables-fit")
    return folder / "model"


def predictions(folder: Path, model: Path, size: int, options: Options) -> None:
    """Memory of ``predict`` on a file, and on one of a tenth of it."""
    csv.write_csv(chunk(0, CHUNK_ROWS).select([f"x{i}" for i in range(COLUMNS)]), folder / "chunk.csv")
    header, rows = (folder / "chunk.csv").read_bytes().split(b"\n", 1)
    path, table = folder / "new.csv", list[dict[str, object]]()
    for part in (size // 10, size):
        repeats = -(-part // len(rows))
        with path.open("wb") as file:
            file.write(header + b"\n")
            for _ in range(repeats):
                file.write(rows)
        cost = measured("-m", "invariance", "predict", model, path, "-o", folder / "out.csv", limit=MEMORY)
        with (folder / "out.csv").open("rb") as file:
            predicted = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b"")) - 1
        if predicted != repeats * CHUNK_ROWS:
            raise SystemExit(f"{predicted:,} predictions for {repeats * CHUNK_ROWS:,} rows")
        table.append(
            {
                "file, GB": path.stat().st_size / 1e9,
                "rows": f"{predicted:,}",
                "peak memory, GB": cost.memory / 1e9,
                "µs per row": 1e6 * cost.seconds / predicted,
            }
        )
    show("invariance predict", table, f"Each was allowed to allocate {MEMORY / 1e9:.1f} GB.", options, "tables-predict")


def main() -> None:
    options = Options.parse(__doc__)
    with tempfile.TemporaryDirectory() as name:
        model = fits(Path(name), 50_000 if options.quick else 1_000_000, options)
        predictions(Path(name), model, 10**8 if options.quick else 5 * 10**9, options)


if __name__ == "__main__":
    main()
