"""Every format that is read, with a small valid example and what reading it must give."""

import gzip
import hashlib
import io
import json
import os
import random
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from PIL import Image
from pyarrow import parquet

import invariance
from invariance.cli import main
from invariance.core.errors import InvarianceError
from invariance.data import celeba
from invariance.data.formats import cifar, idx
from invariance.data.formats.downloads import File
from invariance.data.images import coco
from invariance.data.images.image_files import read as read_image
from invariance.experiments import resume
from invariance.experiments.run import execute, resume_state
from invariance.experiments.saved import save as save_run
from invariance.experiments.spec import Spec, parse_changes
from invariance.experiments.store import Store
from invariance.tabular.labelled_rows import infer_schema, read
from invariance.tabular.source import TableSource
from invariance.training.loop import StateDict
from reliability.mutations import altered, damaged, spoiled

SMALL = {"data": {"samples": 40}, "recipe": {"epochs": 1}, "evaluation": {"checkpoints": 1}}
WORDS = ("recipe", "lr", "epochs", "method", "gamma", "data", "samples", "model", "width", "evaluation", "1", "0.1")
ARGUMENTS = (
    *("list", "runs", "data", "train", "evaluate", "predict", "fit", "report", "show", "export", "remove", "methods"),
    *("--store", "--seed", "--json", "--set", "--limit", "--status", "--recipe", "-o", "two-bit", "erm", "irmv1"),
    *("recipe.epochs=1", "data.samples=40", "evaluation.checkpoints=1", "runs.db", "table.csv", "model", "--yes"),
)


@dataclass(frozen=True)
class Format:
    """``case`` does one mutation in a folder and reads it; what it raises but for this package's errors is wrong."""

    name: str
    case: Callable[[Path, random.Random], None]


class Examples:
    """A small valid file of every format, made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        noise = np.random.default_rng(0)
        self.idx = gzip.compress(b"\x00\x00\x08\x03" + (3).to_bytes(4, "big") * 3 + bytes(range(27)))
        self.cifar = bytes([3, *range(256)] * 12)[: cifar.RECORD] * 2
        self.images = [_encoded(noise, kind) for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")]
        rows = [f"{noise.normal():.3f},{'ab'[i % 2]},s{i % 3},{i % 2}" for i in range(60)]
        self.csv = "\n".join(["x,kind,site,sick", *rows]).encode()
        columns = {"x": noise.normal(size=60), "kind": ["a", "b"] * 30, "site": ["s", "t"] * 30, "sick": [0, 1] * 30}
        parquet.write_table(pa.table(columns), folder / "t.parquet")
        self.parquet = (folder / "t.parquet").read_bytes()
        self.attributes = _attributes()
        self.coco = _coco()
        self._runs(folder)

    def _runs(self, folder: Path) -> None:
        states = []
        spec = Spec.of("two-bit", "irmv1", "short", 0, SMALL)
        executed = execute(spec, lambda *args: states.append(resume_state(*args)))
        save_run(executed, folder / "run")
        state = next(state for state in states if state)
        resume.save(state, folder / "c.safetensors")
        with Store(folder / "runs.db") as store:
            store.add(executed.run)
        with sqlite3.connect(folder / "runs.db") as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        self.spec, self.checkpoint = spec.to_json(), (folder / "c.safetensors").read_bytes()
        self.store = (folder / "runs.db").read_bytes()
        self.weights = executed.run.weights
        self.state = state


def _same(state: StateDict, other: StateDict) -> bool:
    return state.keys() == other.keys() and all(torch.equal(state[name], other[name]) for name in state)


def _encoded(noise: np.random.Generator, kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(noise.integers(0, 255, (24, 20, 3), dtype=np.uint8)).save(buffer, kind)
    return buffer.getvalue()


def _attributes() -> bytes:
    lines = [f"{i:06d}.jpg {(-1) ** i} {(-1) ** (i // 2)} {-((-1) ** (i // 2))}" for i in range(40)]
    return "\n".join(["40", "Smiling Blond_Hair Black_Hair", *lines]).encode()


def _coco() -> dict[str, Any]:
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


def formats(made: Examples) -> list[Format]:
    """All of them."""

    def whole(path: Path, content: bytes) -> Path:
        path.write_bytes(content)
        return path

    def read_idx(folder: Path, rng: random.Random) -> None:
        content = (
            damaged(made.idx, rng) if rng.random() < 0.5 else gzip.compress(damaged(gzip.decompress(made.idx), rng), 1)
        )
        path = whole(folder / "f.gz", content)
        os.environ["INVARIANCE_DATA"] = str(folder)
        idx.read(File(path.name, hashlib.sha256(content).hexdigest()))

    def read_cifar(folder: Path, rng: random.Random) -> None:
        records = cifar.read([whole(folder / "data_batch_1.bin", damaged(made.cifar, rng))])
        if int(records.classes.max()) > 9:
            raise AssertionError("a class beyond CIFAR-10's")

    def read_coco(folder: Path, rng: random.Random) -> None:
        plain = (
            json.dumps(altered(made.coco, rng)).encode()
            if rng.random() < 0.7
            else damaged(json.dumps(made.coco).encode(), rng)
        )
        found = coco.objects(whole(folder / "c.json", plain), ("cat", "dog"), 1.0)
        for item in found:
            whole(folder / "1.png", made.images[0])
            try:
                coco.pasted(item, folder, [[0, 0, 0]], 8)
            except Exception as error:  # as the cache does, which gives the reason
                if isinstance(error, MemoryError):
                    raise

    def read_attributes(folder: Path, rng: random.Random) -> None:
        path = whole(folder / "list_attr_celeba.txt", damaged(made.attributes, rng))
        celeba._attributes(path, path.read_bytes().hex())

    def read_picture(folder: Path, rng: random.Random) -> None:
        path = whole(folder / "i.png", damaged(rng.choice(made.images), rng))
        try:
            image = read_image(path, 8)
        except Exception as error:  # as the reader of folders does, which gives the reason
            if isinstance(error, MemoryError):
                raise
        else:
            if image.shape != (3, 8, 8) or image.dtype != np.uint8:
                raise AssertionError(f"an image of shape {image.shape}")

    def read_table(suffix: str, content: bytes) -> Callable[[Path, random.Random], None]:
        def case(folder: Path, rng: random.Random) -> None:
            schema = infer_schema(TableSource.open(whole(folder / f"t{suffix}", damaged(content, rng))), "sick", "site")
            rows = read(schema.source, schema.encoder)
            if not np.isfinite(np.asarray(rows.x)).all() or rows.x.shape != (len(rows.y), len(schema.encoder.features)):
                raise AssertionError("numbers that are not finite, or of another shape")

        return case

    def read_model(folder: Path, rng: random.Random) -> None:
        shutil.copytree(made.folder / "run", folder / "run", dirs_exist_ok=True)
        path = folder / "run" / rng.choice(("manifest.json", "weights.safetensors"))
        content, changed = path.read_bytes(), path.read_bytes()
        if path.suffix == ".json" and rng.random() < 0.5:
            changed = json.dumps(altered(json.loads(content), rng)).encode()
        else:
            changed = damaged(content, rng)
        path.write_bytes(changed)
        run = invariance.load(folder / "run").run
        if run.weights != made.weights:
            raise AssertionError("another model than was saved")

    def read_checkpoint(folder: Path, rng: random.Random) -> None:
        changed = damaged(made.checkpoint, rng)
        state = resume.load(whole(folder / "c.safetensors", changed))
        if state and (state.history != made.state.history or not _same(state.state, made.state.state)):
            raise AssertionError("a damaged checkpoint was taken for whole")

    def read_store(folder: Path, rng: random.Random) -> None:
        with Store(whole(folder / "runs.db", damaged(made.store, rng)), must_exist=True) as store:
            summaries = store.summaries()
            list(store.records())
            list(store.specs())
            store.groups()
            store.trials(summary.trial for summary in summaries)

    def read_spec(folder: Path, rng: random.Random) -> None:
        spec = Spec.from_json(altered(made.spec, rng))
        if Spec.from_json(spec.to_json()).key != spec.key:
            raise AssertionError("a spec that does not survive being written")

    def read_settings(folder: Path, rng: random.Random) -> None:
        setting = f"{spoiled(WORDS, rng)}.{spoiled(WORDS, rng)}={spoiled(WORDS, rng)}"
        if rng.random() < 0.6:
            section = rng.choice(("recipe", "method", "data", "model", "evaluation"))
            setting = f"{section}.{rng.choice(WORDS)}={json.dumps(rng.choice(ODD_VALUES))}"
        Spec.of("two-bit", "irmv1", "short", 0, parse_changes([setting]))

    return [
        Format("IDX", read_idx),
        Format("CIFAR-10", read_cifar),
        Format("COCO annotations", read_coco),
        Format("attributes", read_attributes),
        Format("images", read_picture),
        Format("CSV", read_table(".csv", made.csv)),
        Format("Parquet", read_table(".parquet", made.parquet)),
        Format("model folder", read_model),
        Format("checkpoint", read_checkpoint),
        Format("store", read_store),
        Format("spec", read_spec),
        Format("--set", read_settings),
        Format("arguments", run_arguments),
    ]


ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    [],
    {},
    "",
    "x",
    -1,
    0,
    1.5,
    2**63,
    10**30,
    1e308,
    [[1]],
    {"kind": 3},
    {"kind": "x"},
)


def run_arguments(folder: Path, rng: random.Random) -> None:
    """A command line of words that exist, in any order: one line of error, or an answer."""
    os.chdir(folder)
    words = rng.choices(ARGUMENTS, k=rng.randint(1, 6))
    sys.argv = ["invariance", *words, *([spoiled(ARGUMENTS, rng)] if rng.random() < 0.3 else [])]
    said = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            if end.code == 1 and said.getvalue().count("\n") > 2:
                raise AssertionError(f"{sys.argv}: {said.getvalue()[:200]}") from None


__all__ = ["Examples", "Format", "InvarianceError", "formats"]
