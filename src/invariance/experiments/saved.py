"""A trained model on disk: weights as safetensors, everything else as one JSON manifest."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from invariance.core import Benchmark, generator
from invariance.errors import BadValue, DataError, InvarianceError, StoreError
from invariance.experiments.manifest import manifest
from invariance.experiments.run import Executed, Run, fresh_model, load_benchmark
from invariance.models.base import Model

WEIGHTS, MANIFEST = "weights.safetensors", "manifest.json"


def claim(folder: Path, *, overwrite: bool = False) -> None:
    """Make sure a run can be saved to ``folder``, before it is trained."""
    if (folder / MANIFEST).exists() and not overwrite:
        raise BadValue(f"{folder} already holds a run; choose another folder with -o, or add --overwrite")
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        raise BadValue(f"cannot write to {folder}: {place} is no folder to write to; choose another with -o")


def save(executed: Executed, folder: Path) -> None:
    """Write weights and manifest; each file appears whole or not at all."""
    content = {
        "run": executed.run.to_json(),
        "environments": [{"name": e.name, "samples": len(e)} for e in executed.benchmark.train],
        "versions": manifest()["versions"],
    }
    tensors = {k: v.contiguous() for k, v in executed.model.state_dict().items()}
    parts = {name: folder / f"{name}.part" for name in (WEIGHTS, MANIFEST)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_file(tensors, parts[WEIGHTS])
        parts[MANIFEST].write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        for name, part in parts.items():
            part.replace(folder / name)
    except (OSError, SafetensorError) as error:
        raise StoreError(f"cannot save to {folder} ({error}); free some space, or choose another folder") from None
    finally:
        for part in parts.values():
            with suppress(OSError):
                part.unlink()


def load(folder: Path) -> tuple[Run, Model, Benchmark]:
    """The run, its model ready to predict, and its benchmark."""
    if not (folder / MANIFEST).is_file():
        raise DataError(f"{folder} holds no {MANIFEST}; give a folder that 'invariance train' wrote")
    try:
        content: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
        run = Run.from_json(content["run"])
        weights = load_file(folder / WEIGHTS)
        benchmark = load_benchmark(run.spec)
        model = run.spec.objective.prepare(
            fresh_model(run.spec, benchmark), len(benchmark.train), generator(run.spec.seed, "objective")
        )
        model.load_state_dict(weights)
    except InvarianceError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{folder} holds no readable run ({reason}); train it again") from None
    return run, model.eval(), benchmark
