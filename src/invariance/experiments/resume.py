"""A resume state on disk: named tensors as safetensors, the history in their header."""

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialised

from invariance.core.atomic import atomic_write, part_path
from invariance.core.errors import StoreError
from invariance.experiments.run import ResumeState
from invariance.training.selection import dump_history, load_history


def save(run: ResumeState, path: Path) -> None:
    """Write a resume state; the file appears whole or not at all."""
    history = json.dumps(dump_history(run.history))
    state = {name: tensor.contiguous() for name, tensor in run.state.items()}
    try:
        # not by save_file: what that leaves when it is killed has a random name, and is never removed
        with atomic_write(path) as part:
            part.write_bytes(serialised(state, {"history": history, "seconds": repr(run.seconds)}))
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
    """The resume state, or None where there is none that can be read: the run then starts anew."""
    try:
        with safe_open(path, "pt") as file:
            header = file.metadata()
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        return ResumeState(state, load_history(json.loads(header["history"])), float(header["seconds"]))
    except (OSError, SafetensorError, ValueError, LookupError, TypeError):
        return None
