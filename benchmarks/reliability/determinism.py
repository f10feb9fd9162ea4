"""Same spec, same bits: by every way to make a run. And how much predictions differ on other processors and threads.

Instruction sets and threads are chosen by variables that torch and its libraries read when they start, so each case is
a process of its own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import invariance
from invariance.core.inputs import Pixels
from invariance.experiments.engines import run_all
from invariance.experiments.run import ResumeState, Run, execute, resume_state
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store
from invariance.models.resnet import ResNet
from reliability.properties import table

SMALL = {"data": {"samples": 500}, "recipe": {"epochs": 20, "batch_size": 100}, "evaluation": {"checkpoints": 4}}
METHODS = ("erm", "irmv1", "birm", "irm-game", "sparse-irm")
AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
SSE = {"ONEDNN_MAX_CPU_ISA": "SSE41", "ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}
PROCESSORS: dict[str, dict[str, str]] = {
    "the same again": {},
    "two threads": {"OMP_NUM_THREADS": "2"},
    **{f"{name}={value}": {name: value} for name, value in AVX2.items()},
    "all three: a processor without AVX-512": AVX2,
    "SSE 4 alone": SSE,
}


def pieces() -> list[str]:
    """What is measured by itself."""
    return ["ways to make a run", "processors"]


def ways() -> list[dict[str, str | float]]:
    """In how many of the runs a bit differs from those of one process, one after another."""
    specs = [Spec.of("two-bit", method, "short", seed, SMALL) for method in METHODS for seed in range(2)]
    alone = {spec.key: _plain(execute(spec).run) for spec in specs}
    with tempfile.TemporaryDirectory() as folder:
        found = {
            "one worker": _by_engine(specs, Path(folder) / "1.db", 1, "local"),
            "two workers at once": _by_engine(specs, Path(folder) / "2.db", 2, "local"),
            "resumed at every checkpoint": {spec.key: _resumed(spec) for spec in specs},
            "two tasks at once on a Ray cluster": _by_engine(specs, Path(folder) / "3.db", 2, "ray"),
        }
    names = "runs by", "runs", "runs that differ in a bit"
    return [
        dict(zip(names, (way, str(len(specs)), float(sum(runs[key] != alone[key] for key in alone))), strict=True))
        for way, runs in found.items()
    ]


def _plain(run: Run) -> str:
    """Everything but its time; the digest of the weights is in it."""
    return json.dumps(run.to_json() | {"seconds": 0}, sort_keys=True)


def _by_engine(specs: list[Spec], path: Path, workers: int, engine: str) -> dict[str, str]:
    list(run_all(specs, path, workers, engine=engine))
    with Store(path) as store:
        runs = {spec.key: store.get(spec.key) for spec in specs}
    return {key: _plain(run) for key, run in runs.items() if run}


def _resumed(spec: Spec) -> str:
    """The run, made again from each of its resume states: the last one, if all agree."""
    states: list[ResumeState | None] = []
    made = {_plain(execute(spec, lambda *progress: states.append(resume_state(*progress))).run)}
    made |= {_plain(execute(spec, resume_from=state).run) for state in states if state}
    return made.pop() if len(made) == 1 else "they differ"


def predictions() -> dict[str, NDArray[np.float64]]:
    """Probabilities of three small models."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    x, y, site = table()
    noise = np.random.default_rng(0)
    images = (noise.integers(0, 60, (120, 3, 16, 16)) + 60 * (np.arange(120) % 3)[:, None, None, None]).astype(np.uint8)
    recipe = invariance.recipe("short", changes={"epochs": 5, "batch_size": 40})
    resnet = invariance.InvariantClassifier("irmv1", recipe=recipe, features=ResNet(width=8))
    executed = execute(Spec.of("two-bit", "irmv1", "short", 0, SMALL))
    inputs = executed.benchmark.train[0].x
    return {
        "table, linear": invariance.InvariantClassifier("irmv1").fit(x, y, environments=site).predict_proba(x),
        "bits, MLP": executed.model(inputs).detach().double().sigmoid().numpy(),
        "images, ResNet": resnet.fit(
            Pixels.of(images), np.arange(120) % 3, environments=np.repeat(["a", "b", "c"], 40)
        ).predict_proba(Pixels.of(images)),
    }


def processors() -> list[dict[str, str | float]]:
    """The largest change of a probability of each model."""
    with tempfile.TemporaryDirectory() as folder:
        made = [_elsewhere(Path(folder) / f"{i}.json", own) for i, own in enumerate(({}, *PROCESSORS.values()))]
    rows: list[dict[str, str | float]] = []
    for name, changed in zip(PROCESSORS, made[1:], strict=True):
        changes = {model: float(np.abs(changed[model] - first).max()) for model, first in made[0].items()}
        rows.append({"trained with": name, **changes})
    return rows


def _elsewhere(path: Path, variables: dict[str, str]) -> dict[str, NDArray[np.float64]]:
    """The predictions of a process with these variables."""
    command = [sys.executable, "-m", "reliability.determinism", "--save", str(path)]
    subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"} | variables, check=True)
    return {name: np.asarray(p) for name, p in json.loads(path.read_text(encoding="ascii")).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=pieces(), default="processors")
    parser.add_argument("--save", type=Path, help="train and write the predictions")
    options = parser.parse_args()
    if options.save:
        options.save.write_text(json.dumps({name: p.tolist() for name, p in predictions().items()}), encoding="ascii")
        return
    torch.set_num_threads(1)
    print(json.dumps(processors() if options.only == "processors" else ways()))


if __name__ == "__main__":
    main()
