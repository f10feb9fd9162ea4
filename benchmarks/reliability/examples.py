"""A small valid file of every format that is read."""

import gzip
import io
import json
import os
import random
import sqlite3
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image
from pyarrow import parquet

from invariance.cli import main
from invariance.core import model_folder
from invariance.data.formats import cifar
from invariance.experiments import resume
from invariance.experiments.run import execute, resume_state
from invariance.experiments.saved import save as save_run
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store
from invariance.tabular.encoder import Encoder

SMALL = {"data": {"samples": 40}, "recipe": {"epochs": 1}, "evaluation": {"checkpoints": 1}}
KINDS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")
MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "I;16")
ORIENTATION = 0x0112
FIT = ("fit", "table.csv", "--label", "sick", "--environment", "site", "--method", "erm", "--no-report", "-o", "fitted")


class Examples:
    """Valid content of every format, made once in a folder, which also holds models and a store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        noise = np.random.default_rng(0)
        self.idx = gzip.compress(b"\x00\x00\x08\x03" + (3).to_bytes(4, "big") * 3 + bytes(range(27)))
        self.cifar = bytes([3, *range(256)] * 12)[: cifar.RECORD] * 2
        self.images = [encoded(noise.integers(0, 255, (24, 20, 3), dtype=np.uint8), kind) for kind in KINDS]
        self.rows = [[f"{noise.normal():.3f}", "ab"[i % 2], f"s{i % 3}", str(i % 2)] for i in range(60)]
        self.header = ["x", "kind", "site", "sick"]
        self.csv = "\n".join(map(",".join, [self.header, *self.rows])).encode()
        self.columns = {"x": noise.normal(size=60), "kind": ["a", "b"] * 30, "site": list("stu") * 20}
        self.columns["sick"] = [0, 1] * 30
        parquet.write_table(pa.table(self.columns), folder / "t.parquet")
        self.parquet = (folder / "t.parquet").read_bytes()
        lines = [f"{i:06d}.jpg {(-1) ** i} {(-1) ** (i // 2)} {-((-1) ** (i // 2))}" for i in range(40)]
        self.attributes = "\n".join(["40", "Smiling Blond_Hair Black_Hair", *lines]).encode()
        self.coco = annotations()
        self._runs(folder)
        self._fitted(folder)

    def _runs(self, folder: Path) -> None:
        states = []
        spec = Spec.of("two-bit", "irmv1", "short", 0, SMALL)
        executed = execute(spec, lambda *args: states.append(resume_state(*args)))
        save_run(executed, folder / "run")
        self.state = next(state for state in states if state)
        resume.save(self.state, folder / "c.safetensors")
        with Store(folder / "runs.db") as store:
            store.add(executed.run)
        with sqlite3.connect(folder / "runs.db") as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        self.spec, self.checkpoint = spec.to_json(), (folder / "c.safetensors").read_bytes()
        self.store = (folder / "runs.db").read_bytes()
        self.weights = executed.run.weights

    def _fitted(self, folder: Path) -> None:
        (folder / "table.csv").write_bytes(self.csv)
        (folder / "specs.jsonl").write_text(json.dumps(self.spec))
        here = Path.cwd()
        sys.argv = ["invariance", *FIT]
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            os.chdir(folder)
            try:
                main()
            except SystemExit as end:
                if end.code:
                    raise
            finally:
                os.chdir(here)
        self.encoder = Encoder.from_json(model_folder.read(folder / "fitted").content["extra"]["table"])


def encoded(pixels: "np.ndarray[Any, np.dtype[np.uint8]]", kind: str) -> bytes:
    """An image file."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def odd_image(rng: random.Random) -> bytes:
    """A valid file of any format, mode, size and orientation that can be had."""
    buffer = io.BytesIO()
    image = Image.new(rng.choice(MODES), (rng.choice((1, 2, 9, 40)), rng.choice((1, 3, 24))))
    exif = Image.Exif()
    exif[ORIENTATION] = rng.choice((0, 1, 3, 6, 8, 9, 65535))
    try:
        image.save(buffer, rng.choice(KINDS), exif=exif)
    except (OSError, ValueError, TypeError):  # no such mode in that format
        image.convert("RGB").save(buffer, "PNG", exif=exif)
    return buffer.getvalue()


def annotations() -> dict[str, Any]:
    """Three objects of COCO."""
    box = [2.0, 2.0, 18.0, 2.0, 18.0, 18.0, 2.0, 18.0]
    numbers = range(1, 4)
    return {
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
        "images": [{"id": i, "file_name": f"{i}.png", "height": 24, "width": 20} for i in numbers],
        "annotations": [
            {"id": i, "image_id": i, "category_id": 1 + i % 2, "area": 200.0, "iscrowd": 0, "segmentation": [box]}
            for i in numbers
        ],
    }
