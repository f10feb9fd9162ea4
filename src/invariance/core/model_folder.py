"""A model in a folder: weights as safetensors, everything else as one JSON manifest. Nothing is ever unpickled.

Every manifest has a ``kind``, which says what the folder holds and who restores it:

=============  ==================================================  ==========================
kind           written by                                          holds
=============  ==================================================  ==========================
``run``        ``invariance train``                                a spec and its trained model
``classifier`` ``invariance fit``, ``invariance.save``             a fitted estimator
``regressor``  ``invariance fit``, ``invariance.save``             a fitted estimator
=============  ==================================================  ==========================
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from safetensors import SafetensorError
from torch import Tensor

from invariance.core.atomic import atomic_write, discard
from invariance.core.errors import BadValue, DataError, InvarianceError, StoreError
from invariance.core.provenance import provenance

WEIGHTS, MANIFEST = "weights.safetensors", "manifest.json"
NEW_WEIGHTS = "weights.new.safetensors"
"""The weights of a new manifest until they take their place: all that a killed process can leave to be done."""
CARD, REPORT = "README.md", "report.html"
"""What describes the model of a folder, and goes with it."""
FORMAT, REVISION = "invariance model", 2
ESTIMATOR_FORMAT = "invariance estimator"
"""What estimators of revision 1 called themselves; runs of revision 1 had no format, and neither seal nor kind."""
RESTORERS = {
    "run": "invariance.experiments.saved:restore",
    "classifier": "invariance.estimators.saved:restore",
    "regressor": "invariance.estimators.saved:restore",
}
"""The function that restores each kind, by name: this room knows none of those above it."""


@dataclass(frozen=True)
class Manifest:
    """What stands in a folder's manifest, checked, and the weights beside it."""

    folder: Path
    kind: str
    content: dict[str, Any]
    weights: bytes


def load(folder: Path | str, *, features: Any = None) -> Any:
    """What ``invariance train``, ``invariance fit`` or ``invariance.save`` wrote, ready to predict.

    An estimator, or a :class:`TrainedRun` with its ``model``. An estimator with a torch module of the user's own as
    ``features`` needs one of the same architecture again.
    """
    return restore(read(folder), features)


def restore(manifest: Manifest, features: Any = None) -> Any:
    """The object that a manifest describes, by its kind."""
    with _readable(manifest.folder):
        return resolve_name(RESTORERS[manifest.kind])(manifest, features)


def read(folder: Path | str) -> Manifest:
    """The manifest and weights of any kind, if they are as they were written."""
    folder = Path(folder)
    if not (folder / MANIFEST).is_file():
        writers = "'invariance train', 'invariance fit' or invariance.save"
        raise DataError(f"{folder} holds no {MANIFEST}; give a folder that {writers} wrote")
    with _readable(folder):
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        kind = _kind(content, folder)
        weights = _weights(folder, content.get("weights"))
        if "format" in content:  # runs of revision 1 have no seal
            _verify(content, weights, folder)
    return Manifest(folder, kind, content, weights)


def save(
    folder: Path, kind: str, content: Mapping[str, Any], weights: bytes, files: Mapping[str, bytes] | None = None
) -> None:
    """Write weights, the manifest with its ``kind`` and ``content``, and perhaps files that describe the model."""
    head = {"format": FORMAT, "revision": REVISION, "kind": kind, "versions": provenance()["versions"]}
    try:
        plain = json.loads(json.dumps({**head, **content, "weights": _hash(weights)}))
    except (TypeError, ValueError) as error:
        raise BadValue(f"the manifest takes plain data only ({error}); give text, numbers, lists, mappings") from None
    text = json.dumps(plain | {"seal": seal(plain)}, indent=2, ensure_ascii=False) + "\n"
    _refuse_others(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _replace(folder, weights, text.encode())
        for name, description in (files or {}).items():
            _write(folder / name, description)
    except OSError as error:
        raise StoreError(f"cannot save to {folder} ({error}); free some space, or choose another folder") from None


def claim(folder: Path, *, overwrite: bool = False) -> None:
    """Make sure that a model can be saved to ``folder``, before it is trained."""
    if (folder / MANIFEST).exists() and not overwrite:
        raise BadValue(f"{folder} already holds a model; choose another folder with -o, or add --overwrite")
    _refuse_others(folder)
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        raise BadValue(f"cannot write to {folder}: {place} is not a writable folder; choose another with -o")


def _refuse_others(folder: Path) -> None:
    """Files of these names that are not of a model stay."""
    found = [name for name in (WEIGHTS, CARD, REPORT) if (folder / name).exists()]
    if found and not (folder / MANIFEST).exists():
        names = f"a {' and a '.join(found)} that a model would replace"
        raise BadValue(f"{folder} holds no model, but {names}; choose another folder")


def _replace(folder: Path, weights: bytes, manifest: bytes) -> None:
    """Put a model in the place of another at one moment, when its manifest gets its name.

    Until then the folder holds the old model, from then on the new one, whose weights may still have their first name.
    """
    old, new = (folder / MANIFEST).exists(), folder / NEW_WEIGHTS
    if old and new.exists():
        _settle(folder)
    try:
        _write(new, weights)
        with atomic_write(folder / MANIFEST, sync=True) as part:
            part.write_bytes(manifest)
            for name in (CARD, REPORT) if old else ():
                discard(folder / name)
    except OSError:
        discard(new)
        raise
    new.replace(folder / WEIGHTS)


def _settle(folder: Path) -> None:
    """Finish what a killed process began: the new weights, if the manifest is theirs, take their place."""
    try:
        stated = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["weights"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return
    if _hash((folder / NEW_WEIGHTS).read_bytes()) == stated:
        (folder / NEW_WEIGHTS).replace(folder / WEIGHTS)


def _weights(folder: Path, stated: str | None) -> bytes:
    """The weights that the manifest states, which may still have their first name."""
    if (new := folder / NEW_WEIGHTS).is_file() and _hash(weights := new.read_bytes()) == stated:
        return weights
    return (folder / WEIGHTS).read_bytes()


def _write(path: Path, content: bytes) -> None:
    with atomic_write(path, sync=True) as part:
        part.write_bytes(content)


def finite(tensors: Mapping[str, Tensor], folder: Path) -> Mapping[str, Tensor]:
    """The weights of a model, if they are numbers to compute with."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise DataError(f"the model in {folder} has weights that are not finite, in {name}; train it again")
    return tensors


def seal(content: Mapping[str, Any]) -> str:
    """A hash that detects damage and edits; it is not a signature."""
    return _hash(json.dumps(content, sort_keys=True).encode())


def _kind(content: Any, folder: Path) -> str:
    """The kind of a manifest; runs of revision 1 are those without a format."""
    plain = content if isinstance(content, dict) else {}
    if plain.get("format") in (FORMAT, ESTIMATOR_FORMAT):
        if plain["revision"] > REVISION:
            made = plain["versions"]["invariance"]
            raise DataError(f"{folder} was written by invariance {made}, which is newer; install that or a later one")
        kind = plain["kind"]
    else:
        kind = "run" if "run" in plain and "format" not in plain else None
    if kind not in RESTORERS:
        raise DataError(f"{folder} holds no model of this package; give one that 'invariance train' or 'fit' wrote")
    return str(kind)


def _verify(content: dict[str, Any], weights: bytes, folder: Path) -> None:
    stated = content.pop("seal", None)
    for name, intact in ((MANIFEST, stated == seal(content)), (WEIGHTS, content["weights"] == _hash(weights))):
        if not intact:
            raise DataError(f"{folder / name} is not as it was written; save the model or train it again")


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Whatever goes wrong inside is one line that names the folder."""
    try:
        yield
    except InvarianceError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{folder} holds no readable model ({reason}); train it again") from None
