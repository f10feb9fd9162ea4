"""Resume states on disk: named tensors as safetensors, the history and a hash of everything in their header."""

import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialised
from torch import Tensor

from invariance.core.atomic import atomic_write, part_path
from invariance.core.errors import StoreError
from invariance.core.ranks import count, leaders_bytes, leads
from invariance.experiments.run import ResumeState, resume_state
from invariance.training.selection import History, dump_history, load_history
from invariance.training.train import Snapshot

SAVE_SECONDS = 5.0
"""How often a run writes its resume state."""


class Saver:
    """Writes the resume state of a run at its checkpoints, at most every ``seconds``."""

    def __init__(self, path: Path, seconds: float) -> None:
        self.path, self.seconds, self.last = path, seconds, time.monotonic()

    def __call__(self, snapshot: Snapshot, history: History, seconds: float) -> None:
        """Called at every snapshot."""
        if time.monotonic() - self.last < self.seconds:
            return
        if state := resume_state(snapshot, history, seconds):
            save(state, self.path)
            self.last = time.monotonic()


def packed(run: ResumeState) -> bytes:
    """What a file of a resume state holds."""
    about = {"history": json.dumps(dump_history(run.history)), "seconds": repr(run.seconds)}
    state = {name: tensor.cpu().contiguous() for name, tensor in run.state.items()}
    about["digest"] = _digest(state, about)
    return serialised(state, about)


def save(run: ResumeState, path: Path) -> None:
    """Write a resume state; the file appears whole or not at all."""
    content = packed(run)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # not by save_file: what that leaves when it is killed has a random name, and is never removed
        with atomic_write(path) as part:
            part.write_bytes(content)
    except OSError as error:
        raise StoreError(
            f"cannot save the state of a run in {path.parent} ({error}); finished runs are safe. Free some space and "
            "give the same command again"
        ) from None


def remove(path: Path) -> None:
    """Remove a resume state, and what a killed process may have left of it."""
    for file in (path, part_path(path)):
        file.unlink(missing_ok=True)


def load_leaders(path: Path) -> ResumeState | None:
    """The resume state on every rank, from a file that may be on the leader's machine alone."""
    if count() == 1:
        return load(path)
    with TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        copy.write_bytes(leaders_bytes(path.read_bytes() if leads() and path.is_file() else b""))
        return load(copy)


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
