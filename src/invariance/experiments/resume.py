"""A run half-way, on disk: named tensors as safetensors, its history in their header."""

import json
from contextlib import suppress
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialised

from invariance.core.errors import StoreError
from invariance.experiments.run import HISTORY, ResumeState

PART = ".part"
"""What the name of a file ends in while it is written."""


def save(partial: ResumeState, path: Path) -> None:
    """Write it; the file appears whole or not at all."""
    history = json.dumps(HISTORY.dump_python(partial.history, mode="json"))
    part = path.with_suffix(PART)
    try:
        state = {name: tensor.contiguous() for name, tensor in partial.state.items()}
        # by its own name: what save_file leaves when it is killed has one at random, and is never cleared away
        part.write_bytes(serialised(state, {"history": history, "seconds": repr(partial.seconds)}))
        part.replace(path)
    except OSError as error:
        raise StoreError(
            f"cannot keep a run half-way in {path.parent} ({error}); finished runs are safe. Free some space and give "
            "the same command again"
        ) from None
    finally:
        with suppress(OSError):
            part.unlink()


def remove(path: Path) -> None:
    """Forget it, and what a process that was killed may have left of it."""
    for file in (path, path.with_suffix(PART)):
        file.unlink(missing_ok=True)


def load(path: Path) -> ResumeState | None:
    """What was saved, or None where there is nothing that can be read: the run then starts anew."""
    try:
        with safe_open(path, "pt") as file:
            header = file.metadata()
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        return ResumeState(state, HISTORY.validate_python(json.loads(header["history"])), float(header["seconds"]))
    except (OSError, SafetensorError, ValueError, LookupError, TypeError):
        return None
