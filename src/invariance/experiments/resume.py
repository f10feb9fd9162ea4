"""A resume state on disk: named tensors as safetensors; the history, and a hash of everything, in their header."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialised
from torch import Tensor

from invariance.core.atomic import atomic_write, part_path
from invariance.core.errors import StoreError
from invariance.experiments.run import ResumeState
from invariance.training.selection import dump_history, load_history


def save(run: ResumeState, path: Path) -> None:
    """Write a resume state; the file appears whole or not at all."""
    about = {"history": json.dumps(dump_history(run.history)), "seconds": repr(run.seconds)}
    state = {name: tensor.contiguous() for name, tensor in run.state.items()}
    about["digest"] = _digest(state, about)
    try:
        # not by save_file: what that leaves when it is killed has a random name, and is never removed
        with atomic_write(path) as part:
            part.write_bytes(serialised(state, about))
    except OSError as error:
        raise StoreError(
            f"cannot save the state of a run in {path.parent} ({error}); finished runs are safe. Free some space and "
            "give the same command again"
        ) from None


def remove(path: Path) -> None:
    """Remove a resume state, and what a killed process may have left of it."""
    for file in (path, part_path(path)):
        file.unlink(missing_ok=True)


def load(path: Path) -> ResumeState | None:
    """The resume state, or None where there is none as it was written: the run then starts anew."""
    try:
        with safe_open(path, "pt") as file:
            about = file.metadata()
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        if about.pop("digest") != _digest(state, about):
            return None
        return ResumeState(state, load_history(json.loads(about["history"])), float(about["seconds"]))
    except (OSError, SafetensorError, ValueError, LookupError, TypeError, AttributeError, RuntimeError):
        return None


def _digest(state: Mapping[str, Tensor], about: Mapping[str, str]) -> str:
    """A hash of all tensors, with their names, types and shapes, and of what is said about them."""
    digest = hashlib.blake2b(repr(sorted(about.items())).encode(), digest_size=16)
    for name, tensor in sorted(state.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()
