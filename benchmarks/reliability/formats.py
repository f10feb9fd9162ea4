"""Every format that is read: how one input of it is spoiled, and what reading it must give.

Half of the inputs are damaged bytes. The others are whole in form, checksums included, and odd in what they hold.
"""

import gzip
import hashlib
import json
import os
import random
import shutil
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import invariance
from invariance.core import model_folder
from invariance.core.errors import InvarianceError
from invariance.data import celeba
from invariance.data.formats import cifar, idx
from invariance.data.formats.downloads import File
from invariance.data.images import coco
from invariance.data.images.image_files import read as read_image
from invariance.experiments import resume
from invariance.experiments.cost import seconds
from invariance.experiments.spec import Spec, parse_changes
from invariance.tabular.labelled_rows import infer_schema, read
from invariance.tabular.source import TableSource
from invariance.training.loop import StateDict
from reliability.commands import arguments, odd_rows, read_store
from reliability.examples import Examples, odd_image
from reliability.mutations import ODD, altered, damaged, neighbour, spoiled
from reliability.odd_tables import odd_csv, odd_parquet

Case = Callable[[Path, random.Random], bool | None]
SECTIONS = ("data", "model", "objective", "recipe", "evaluation")
WORDS = ("recipe", "lr", "epochs", "method", "gamma", "data", "samples", "model", "width", "evaluation", "1", "0.1")
FRAME = {"x": [0.5, -1.0, float("nan")], "kind": ["a", "b", "c"]}


@dataclass(frozen=True)
class Format:
    """``case`` does one mutation in a folder and reads it; what it raises but for this package's errors is wrong."""

    name: str
    case: Case


def put(path: Path, content: bytes) -> Path:
    """A file with that content."""
    path.write_bytes(content)
    return path


class Cases:
    """One mutation of each format."""

    def __init__(self, made: Examples) -> None:
        self.made = made

    def idx(self, folder: Path, rng: random.Random) -> None:
        if rng.random() < 0.5:
            content = damaged(self.made.idx, rng)
        else:
            content = gzip.compress(damaged(gzip.decompress(self.made.idx), rng), 1)
        path = put(folder / "f.gz", content)
        os.environ["INVARIANCE_DATA"] = str(folder)
        idx.read(File(path.name, hashlib.sha256(content).hexdigest()))

    def cifar(self, folder: Path, rng: random.Random) -> None:
        odd = bytearray(self.made.cifar)
        odd[rng.choice((0, cifar.RECORD))] = rng.randrange(256)
        content = bytes(odd) if rng.random() < 0.5 else damaged(self.made.cifar, rng)
        records = cifar.read([put(folder / "data_batch_1.bin", content)])
        if int(records.classes.max()) > 9:
            raise AssertionError("a class beyond CIFAR-10's")

    def coco(self, folder: Path, rng: random.Random) -> None:
        whole = json.dumps(altered(self.made.coco, rng) if rng.random() < 0.7 else self.made.coco).encode()
        path = put(folder / "c.json", whole if rng.random() < 0.7 else damaged(whole, rng))
        for item in coco.objects(path, ("cat", "dog"), 1.0):
            put(folder / "1.png", self.made.images[0])
            _quietly(partial(coco.pasted, item, folder, [[0, 0, 0]], 8))

    def attributes(self, folder: Path, rng: random.Random) -> None:
        lines = [line.split() for line in self.made.attributes.decode().splitlines()]
        line = rng.choice(lines)
        line[rng.randrange(len(line))] = rng.choice(("0", "2", "x", "", "-1.0", "1e9", "000001.jpg", "9" * 5000, "é"))
        odd = "\n".join(map(" ".join, lines)).encode()
        path = put(folder / "a.txt", odd if rng.random() < 0.5 else damaged(self.made.attributes, rng))
        celeba._attributes(path, path.read_bytes().hex())

    def image(self, folder: Path, rng: random.Random) -> None:
        content = rng.choice((odd_image(rng), damaged(rng.choice(self.made.images), rng), _claimed(self.made, rng)))
        image = _quietly(lambda: read_image(put(folder / "i.png", content), 8))
        if image is not None and (image.shape != (3, 8, 8) or image.dtype != np.uint8):
            raise AssertionError(f"an image of shape {image.shape}")

    def csv(self, folder: Path, rng: random.Random) -> None:
        odd = rng.random() < 0.6
        content = odd_csv(self.made.header, self.made.rows, rng) if odd else damaged(self.made.csv, rng)
        self._table(put(folder / "t.csv", content), rng)

    def parquet(self, folder: Path, rng: random.Random) -> None:
        odd = rng.random() < 0.6
        content = odd_parquet(self.made.columns, rng) if odd else damaged(self.made.parquet, rng)
        self._table(put(folder / "t.parquet", content), rng)

    def _table(self, path: Path, rng: random.Random) -> None:
        """Read for training, or with what a model of another table has learned."""
        source = TableSource.open(path)
        encoder = infer_schema(source, "sick", "site").encoder if rng.random() < 0.6 else self.made.encoder
        rows = read(source, encoder)
        if not np.isfinite(np.asarray(rows.x)).all() or rows.x.shape != (len(rows.y), len(encoder.features)):
            raise AssertionError("numbers that are not finite, or of another shape")

    def model(self, folder: Path, rng: random.Random) -> None:
        name = rng.choice(("run", "fitted"))
        shutil.copytree(self.made.folder / name, folder / name, dirs_exist_ok=True)
        if sealed := rng.random() < 0.5:
            path = folder / name / "manifest.json"
            content = json.loads(path.read_text(encoding="utf-8"))
            odd = altered({k: v for k, v in content.items() if k != "seal"}, rng)
            path.write_text(json.dumps(odd | {"seal": model_folder.seal(odd)} if isinstance(odd, dict) else odd))
        else:
            path = folder / name / rng.choice(("manifest.json", "weights.safetensors"))
            path.write_bytes(damaged(path.read_bytes(), rng))
        model = invariance.load(folder / name)
        if name == "fitted":
            self._predict(model)
        elif not sealed and model.run.weights != self.made.weights:
            raise AssertionError("another model than was saved")

    def _predict(self, model: Any) -> None:
        import pandas as pd

        try:
            predicted = model.predict_proba(pd.DataFrame(FRAME))
        except ValueError as error:  # scikit-learn's own, of inputs that do not fit a model
            raise InvarianceError(error) from None
        if not np.isfinite(predicted).all():
            raise AssertionError("a prediction that is not finite")

    def checkpoint(self, folder: Path, rng: random.Random) -> None:
        state = resume.load(put(folder / "c.safetensors", damaged(self.made.checkpoint, rng)))
        made = self.made.state
        if state and (state.history != made.history or not _same(state.state, made.state)):
            raise AssertionError("a damaged checkpoint was taken for whole")

    def store(self, folder: Path, rng: random.Random) -> None:
        path = put(
            folder / "runs.db", self.made.store if (odd := rng.random() < 0.6) else damaged(self.made.store, rng)
        )
        if odd:
            odd_rows(path, rng)
        read_store(path)

    def spec(self, folder: Path, rng: random.Random) -> None:
        spec = Spec.from_json(altered(self.made.spec, rng))
        if Spec.from_json(spec.to_json()).key != spec.key:
            raise AssertionError("a spec that does not survive being written")
        if not seconds(spec) > 0:
            raise AssertionError("a run that takes no time")

    def settings(self, folder: Path, rng: random.Random) -> None:
        kind = rng.random()
        section = rng.choice(SECTIONS)
        field = rng.choice([name for name in self.made.spec[section] if name != "name"])
        if kind < 0.2:
            setting = f"{spoiled(WORDS, rng)}.{spoiled(WORDS, rng)}={spoiled(WORDS, rng)}"
        elif kind < 0.5:
            setting = f"{section}.{field}={json.dumps(rng.choice([v for v in ODD if isinstance(v, str) or v == v]))}"
        else:
            setting = f"{section}.{field}={json.dumps(neighbour(self.made.spec[section][field], rng))}"
        spec = Spec.of("two-bit", "irmv1", "short", 0, parse_changes([setting]))
        if Spec.from_json(spec.to_json()).key != spec.key:
            raise AssertionError("a spec that does not survive being written")
        seconds(spec)

    def arguments(self, folder: Path, rng: random.Random) -> bool:
        return arguments(self.made.folder, folder, rng)


def _same(state: StateDict, other: StateDict) -> bool:
    return state.keys() == other.keys() and all(torch.equal(state[name], other[name]) for name in state)


def _quietly(make: Callable[[], Any]) -> Any:
    """As the cache of images does, which takes any error for the reason why an image is broken."""
    try:
        return make()
    except MemoryError:
        raise
    except Exception:
        return None


def _claimed(made: Examples, rng: random.Random) -> bytes:
    """A PNG whose header claims another size or kind of pixels, with a checksum to match."""
    data = made.images[0]
    sizes = [rng.choice((0, 1, 20, 13_000, 2**31 - 1)) for _ in range(2)]
    header = b"IHDR" + struct.pack(">IIBBBBB", *sizes, rng.choice((1, 8, 16)), rng.choice((0, 2, 3, 6)), 0, 0, 0)
    return data[:12] + header + struct.pack(">I", zlib.crc32(header)) + data[33:]


FORMATS = {
    "IDX": Cases.idx,
    "CIFAR-10": Cases.cifar,
    "COCO annotations": Cases.coco,
    "attributes": Cases.attributes,
    "images": Cases.image,
    "CSV": Cases.csv,
    "Parquet": Cases.parquet,
    "model folder": Cases.model,
    "checkpoint": Cases.checkpoint,
    "store": Cases.store,
    "spec": Cases.spec,
    "--set": Cases.settings,
    "arguments": Cases.arguments,
}


def formats(made: Examples) -> list[Format]:
    """All of them."""
    cases = Cases(made)
    return [Format(name, partial(case, cases)) for name, case in FORMATS.items()]


__all__ = ["FORMATS", "Examples", "Format", "InvarianceError", "formats"]
