"""A run and its trained model on disk."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from safetensors.torch import save as packed

from invariance.core.environment import Benchmark
from invariance.core.model_folder import MANIFEST, WEIGHTS, reading, write
from invariance.core.provenance import provenance
from invariance.core.seeding import generator
from invariance.experiments.run import Executed, Run, fresh_model, load_benchmark
from invariance.models.base import Model
from invariance.models.resnet import ResNet


def save(executed: Executed, folder: Path) -> None:
    """Write weights and manifest."""
    content = {
        "run": executed.run.to_json(),
        "environments": [{"name": e.name, "samples": len(e)} for e in executed.benchmark.train],
        "versions": provenance()["versions"],
    }
    tensors = {k: v.contiguous() for k, v in executed.model.state_dict().items()}
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write(folder, {WEIGHTS: packed(tensors), MANIFEST: text.encode()})


def load(folder: Path) -> tuple[Run, Model, Benchmark]:
    """The run, its model ready to predict, and its benchmark."""
    with reading(folder, "run", "'invariance train'"):
        content: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        run = Run.from_json(content["run"])
        spec = run.spec
        if isinstance(spec.model, ResNet):
            spec = replace(spec, model=replace(spec.model, weights=None))  # all of them are in the folder
        weights = load_file(folder / WEIGHTS)
        benchmark = load_benchmark(spec)
        fresh = fresh_model(spec, benchmark)
        model = spec.objective.prepare(fresh, len(benchmark.train), generator(spec.seed, "objective"))
        model.load_state_dict(weights)
    return run, model.eval(), benchmark
