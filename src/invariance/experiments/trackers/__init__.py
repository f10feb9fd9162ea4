"""Where runs are shown besides our own reports: one file per tracker; the folder is the registry."""

from pathlib import Path

from invariance.core.catalogue import Catalogue
from invariance.experiments.run import Run
from invariance.experiments.spec import Spec
from invariance.experiments.trackers.base import Tracker, metrics

TRACKERS: Catalogue[Tracker] = Catalogue("tracker", __name__, Tracker)
FOLDER = Path("tracked")
"""Each tracker writes to a folder of its name in here, and nothing goes over a network."""


def tracker(name: str, folder: Path = FOLDER) -> Tracker:
    """The tracker of this name; its package is imported here, so that a missing one is noticed before training."""
    return TRACKERS.create(name, {"folder": folder / name}).ready()


def begin(tracker: Tracker, spec: Spec) -> None:
    """Open a run, under a name that says what it is."""
    name = f"{spec.data_name}-{spec.method_name}-{spec.recipe_name}-seed{spec.seed}-{spec.key[:8]}"
    tracker.open(name.replace("/", "-"), _flat(spec.to_json()))


def track(tracker: Tracker, run: Run) -> None:
    """Write a finished run: what decided it, every checkpoint, and how it ended."""
    begin(tracker, run.spec)
    for checkpoint in run.history:
        tracker.log(checkpoint.step, metrics(checkpoint))
    tracker.close(run.status)


def _flat(plain: object, prefix: str = "") -> dict[str, str]:
    """Nested fields as names with dots."""
    if not isinstance(plain, dict):
        return {prefix: str(plain)}
    parts = (_flat(value, f"{prefix}.{key}" if prefix else str(key)) for key, value in plain.items())
    return {key: value for part in parts for key, value in part.items()}
