"""A run and its trained model in a model folder."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import load as unpacked
from safetensors.torch import save as packed

from invariance.core import model_folder
from invariance.core.environment import Benchmark
from invariance.core.errors import BadValue, DataError
from invariance.core.model_folder import Manifest
from invariance.experiments.run import Executed, Run, digest, load_benchmark, prepared_model
from invariance.models.base import Model
from invariance.models.resnet import ResNet

KIND = "run"


class TrainedRun(NamedTuple):
    """A run, its model ready to predict, and its benchmark."""

    run: Run
    model: Model
    benchmark: Benchmark


def save(executed: Executed, folder: Path) -> None:
    """Write weights and manifest."""
    content = {
        "run": executed.run.to_json(),
        "environments": [{"name": e.name, "samples": len(e)} for e in executed.benchmark.train],
    }
    tensors = {k: v.cpu().contiguous() for k, v in executed.model.state_dict().items()}
    model_folder.save(folder, KIND, content, packed(tensors))


def load(folder: Path) -> TrainedRun:
    """The run in a folder that ``invariance train`` wrote."""
    manifest = model_folder.read(folder)
    if manifest.kind != KIND:
        raise DataError(f"{folder} holds a {manifest.kind}, expected a run; open it with invariance.load")
    run: TrainedRun = model_folder.restore(manifest)
    return run


def restore(manifest: Manifest, features: Any = None) -> TrainedRun:
    """The run of a manifest; its model has all its weights in the folder, and takes no ``features``."""
    if features is not None:
        raise BadValue(f"the run in {manifest.folder} has an architecture of its own; leave out features=")
    run = Run.from_json(manifest.content["run"])
    spec = run.spec
    if isinstance(spec.model, ResNet):
        spec = replace(spec, model=replace(spec.model, weights=None))
    benchmark = load_benchmark(spec)
    model = prepared_model(spec, benchmark)
    model.load_state_dict(model_folder.finite(unpacked(manifest.weights), manifest.folder))
    if run.weights and digest(model) != run.weights:
        raise DataError(f"the weights in {manifest.folder} are not those of its run; train it again")
    return TrainedRun(run, model.eval(), benchmark)
