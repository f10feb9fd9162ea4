"""A table that is larger than the memory it may use: ``invariance fit`` on a Parquet file of 20 GB.

It has 250 columns of 64-bit numbers and the rows of 3,000 sites in no order. ``fit --memory 1`` encodes its rows once
into a file, puts each epoch of them in the order of its batches, and reads these. What counts is the most memory that
the process ever held, as the system counts it (resident, shared libraries included), and its processor time per row. A
smaller table is fitted both ways, with its rows in a file and in memory, for one epoch and for the ten that it gets by
default: the ratio of their costs per row.

Aims: 20 GB within 2 GB of memory; a row costs at most 1.3 times as much as in memory. Needs 41 GB of disk. With
``--quick``, 0.2 GB. The memory that the system's cache of files takes counts only in a control group: run it in one.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from harness import Options, show
from pyarrow import parquet
from tables import Cost, measured

COLUMNS, SITES, CHUNK_ROWS = 250, 3000, 50_000
ROW_BYTES = 8 * COLUMNS
GIGABYTES, SMALL_GIGABYTES = 20.0, 1.0
FIT = ("--label", "sick", "--environment", "site", "--method", "rex", "--no-report", "--overwrite")
ONCE = ("--set", "recipe.epochs=1")


def write(path: Path, gigabytes: float) -> int:
    """Write a table; returns its number of rows. Most columns repeat after a chunk, which nobody notices."""
    rows, rng = int(gigabytes * 1e9 / ROW_BYTES), np.random.default_rng(0)
    noise = {f"x{i}": pa.array(rng.normal(size=CHUNK_ROWS)) for i in range(2, COLUMNS)}
    names = pa.array([f"site {i:04d}" for i in range(SITES)])
    writer = None
    for start in range(0, rows, CHUNK_ROWS):
        x, codes = rng.normal(size=CHUNK_ROWS), rng.integers(0, SITES, CHUNK_ROWS, np.int32)
        sick = x + rng.normal(size=CHUNK_ROWS) > 0
        cue = rng.normal(size=CHUNK_ROWS) + sick * (codes % 7) / 3
        sites = pa.DictionaryArray.from_arrays(codes, names).cast(pa.string())
        table = pa.table({"x0": x, "x1": cue, **noise, "site": sites, "sick": np.where(sick, "yes", "no")})
        how = {"compression": "none", "use_dictionary": ["site", "sick"]}
        writer = writer or parquet.ParquetWriter(path, table.schema, **how)
        writer.write_table(table.slice(0, rows - start))
    assert writer
    writer.close()
    return rows


def fitted(path: Path, memory: float, *more: str) -> Cost:
    """A fit in a process of its own, with so many GB for the rows."""
    return measured("-m", "invariance", "fit", path, *FIT, "--memory", str(memory), *more, "-o", path.parent / "model")


def row(name: str, path: Path, rows: int, cost: Cost) -> dict[str, object]:
    size = path.stat().st_size / 1e9
    peak = cost.memory / 1e9
    return {"rows": name, "file, GB": size, "number": rows, "peak memory, GB": peak, "µs": 1e6 * cost.seconds / rows}


def main() -> None:
    options = Options.parse(__doc__)
    scale = 0.01 if options.quick else 1.0
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "table.parquet"
        rows = write(path, scale * GIGABYTES)
        table = [row("in a file", path, rows, fitted(path, 0.0 if options.quick else 1.0))]
        rows = write(path, scale * SMALL_GIGABYTES)
        ratios = []
        for times, more in (("drawn once", ONCE), ("drawn ten times", ())):
            stored, held = fitted(path, 0.0, *more), fitted(path, 100.0, *more)
            table += [row(f"in a file, {times}", path, rows, stored), row(f"in memory, {times}", path, rows, held)]
            ratios.append(f"{stored.seconds / held.seconds:.2f} where it is {times}")
    note = f"Of the smaller table, a row in a file costs {', '.join(ratios)}, over one in memory."
    show("invariance fit: rows in a file and in memory", table, note, options, "large-table")


if __name__ == "__main__":
    main()
