"""Stages that runs share, on disk beside the store: states under the names that say what decided them.

A file appears whole or not at all, and holds a hash of its content: one that is damaged is computed again. Any number
of processes may read and write. The files together stay within a bound; those that were not used for longest go first.
"""

import hashlib
import json
import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import torch
from filelock import FileLock, Timeout

from invariance.core.errors import StoreError
from invariance.core.provenance import provenance
from invariance.data import DATA
from invariance.experiments import resume
from invariance.experiments.run import ResumeState
from invariance.experiments.spec import Spec, revision
from invariance.models import MODELS
from invariance.recipes.schedules import Clock
from invariance.training.masks import Masks
from invariance.training.stages import Stage, Stages

MAX_BYTES = 2 * 1024**3
"""The size of all files together."""
WRITE_SECONDS = 10.0
"""How long to wait for others that are writing; what was not written is computed again."""


def stage_folder(store: Path) -> Path:
    """Where stages are kept, beside the store."""
    return store.with_name(store.name + "-stages")


class StageCache:
    """States by name in a folder."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self.folder, self.max_bytes = folder, max_bytes

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"

    def names(self) -> Collection[str]:
        """Of all states."""
        return {path.stem for path in self.folder.glob("*.safetensors")}

    def load(self, name: str) -> Stage | None:
        """A state as it was saved, or None; it counts as used now."""
        path = self._path(name)
        found = resume.load(path)
        with suppress(OSError):
            if found:
                os.utime(path)
            else:
                path.unlink(missing_ok=True)
        return found and Stage(found.state, found.seconds, found.history)

    def save(self, name: str, stage: Stage) -> None:
        """Keep a state, and remove others where all would be too large; a disk that is full keeps none."""
        path = self._path(name)
        with suppress(StoreError, OSError, Timeout):
            self.folder.mkdir(parents=True, exist_ok=True)
            with FileLock(self.folder / "lock", timeout=WRITE_SECONDS):
                if not path.exists():
                    resume.save(ResumeState(stage.state, stage.history, stage.seconds), path)
                    self._shrink()

    def _shrink(self) -> None:
        """Remove what was not used for longest; a file under another name is what a killed process left."""
        files = [path for path in self.folder.iterdir() if path.name != "lock"]
        for path in files:
            if path.suffix != ".safetensors":
                path.unlink(missing_ok=True)
        whole = sorted(((stat := path.stat()).st_mtime_ns, stat.st_size, path) for path in files if path.exists())
        excess = sum(size for _, size, _ in whole) - self.max_bytes
        for _, size, path in whole:
            if excess <= 0:
                return
            path.unlink(missing_ok=True)
            excess -= size


def stages(
    spec: Spec, folder: Path | None, device: str, earlier: ResumeState | None, masks: Masks | None = None
) -> Stages | None:
    """The stages that a run shares through a folder, and the masks it shares in this process; none without one."""
    if folder is None:
        return None
    spent = earlier.seconds if earlier else 0.0
    return Stages(StageCache(folder), origin(spec, device), spec.evaluation.checkpoints, spent, masks)


def origin(spec: Spec, device: str) -> str:
    """A hash of all that decides a run's bits beside its weights at the start, its method and its recipe."""
    decided = [
        [DATA.dump(spec.data), spec.data.fingerprint(), spec.method.oracle, spec.hold_out, spec.seed],
        [MODELS.dump(spec.model), spec.start, revision(spec.recipe)],
        [provenance(), device, torch.get_num_threads(), str(torch.get_default_dtype())],
    ]
    return hashlib.blake2b(json.dumps(decided, sort_keys=True).encode(), digest_size=16).hexdigest()


def beginning(spec: Spec) -> str:
    """What decides a run's first update, as far as it is known without loading the data.

    Runs that share a stage begin alike. Some runs begin alike and share none; a run that shares nothing with any other
    has its key here.
    """
    try:
        recipe = spec.method.adapted(spec.recipe)
        clock = Clock(0, 1, int(recipe.warmup > 0))
        first = "environment classifier" if recipe.debias else spec.method.decided_by(clock, sliced=False)
    except Exception:  # a plug-in may raise anything; the run will say so
        return spec.key
    if first is None:
        return spec.key
    rate = recipe.lr * recipe.lr_scale
    return repr((spec.data, spec.model, spec.start, spec.seed, spec.hold_out, spec.method.oracle, rate, first))
