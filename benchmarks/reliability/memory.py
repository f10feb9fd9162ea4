"""The most memory that commands take on inputs that claim to be huge: each must be refused, by what its header says."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image
from pyarrow import parquet

COMMAND = str(Path(sys.executable).with_name("invariance"))
SIDE, CELL_BYTES = 13_000, 400 << 20


def peak(*words: str) -> tuple[int, float]:
    """The exit code of a command, and its peak memory in megabytes."""
    process = subprocess.Popen([COMMAND, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss / 1024


def pictures(folder: Path) -> None:
    """A few small images of two domains and classes."""
    for domain in "ab":
        for value, name in ((60, "cat"), (190, "dog")):
            (place := folder / domain / name).mkdir(parents=True)
            for i in range(8):
                Image.fromarray(np.full((24, 24, 3), value + i, np.uint8)).save(place / f"{i}.png")


def huge_cell(path: Path) -> None:
    """A table of 90 rows, one of whose cells is 400 MB long."""
    rows = 90
    text = pa.array(["x" * CELL_BYTES, *["b"] * (rows - 1)], pa.large_string())
    columns = {"x": np.arange(rows) * 1.0, "site": list("abc") * 30, "sick": ["y", "n"] * 45, "text": text}
    parquet.write_table(pa.table(columns), path, compression="zstd")


def inputs(folder: Path) -> None:
    """Everything that is read below."""
    pictures(folder / "images")
    (folder / "huge").mkdir()
    for i in range(3):
        Image.new("1", (SIDE, SIDE)).save(folder / "huge" / f"{i}.png")
    huge_cell(folder / "t.parquet")


def measured() -> dict[str, list[float]]:
    """Exit code and megabytes of each case; the first is what the command takes without anything huge."""
    os.environ["OMP_NUM_THREADS"] = "1"
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["INVARIANCE_CACHE"] = str(folder / "cache")
        if not (process := os.fork()):  # a command's peak begins with what its parent holds, so the parent stays small
            inputs(folder)
            os._exit(0)
        os.waitpid(process, 0)
        model, fit = str(folder / "m"), ("--epochs", "1", "--method", "erm", "--no-report")
        small = ("--image-size", "8", "--width", "8")
        found["fit, small images"] = [*peak("fit", str(folder / "images"), *small, *fit, "-o", model)]
        huge = ("predict", model, str(folder / "huge"), "-o", str(folder / "p.csv"))
        found["predict, three PNGs of 13,000 × 13,000 pixels"] = [*peak(*huge)]
        cell = ("fit", str(folder / "t.parquet"), "--label", "sick", "--environment", "site", *fit)
        found["fit, a Parquet cell of 400 MB"] = [*peak(*cell, "-o", str(folder / "m2"))]
        size = ("fit", str(folder / "images"), "--image-size", "100000", *fit)
        found["fit, --image-size 100000"] = [*peak(*size, "-o", str(folder / "m3"))]
    return found


def pieces() -> list[str]:
    """What is measured by itself."""
    return ["huge inputs"]


if __name__ == "__main__":
    print(json.dumps(measured()))
