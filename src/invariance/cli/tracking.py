"""``--track``: runs written for TensorBoard, MLflow or Weights & Biases too."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from invariance.cli import completion
from invariance.cli.options import say

if TYPE_CHECKING:
    from invariance.experiments.run import Run
    from invariance.experiments.spec import Spec
    from invariance.experiments.trackers.base import Tracker

Track = Annotated[
    str | None,
    typer.Option(
        "--track",
        help="Also write the new runs for tensorboard, mlflow or wandb, to the folder tracked; offline.",
        autocompletion=completion.trackers,
    ),
]


def tracking(name: str | None) -> "Tracker | None":
    """The tracker of this name, ready to write."""
    if name is None:
        return None
    from invariance.experiments.trackers import tracker

    return tracker(name)


def say_tracked(tracker: "Tracker") -> None:
    """How to look at what was written."""
    say(f"tracked: {tracker.viewer.format(folder=tracker.folder)}")


def track_run(tracker: "Tracker", spec: "Spec", store: Path) -> None:
    """Write a run that has just ended, as the store has it."""
    from invariance.experiments.store import Store
    from invariance.experiments.trackers import track

    with Store(store) as opened:
        run: Run | None = opened.get(spec.key)
    if run is not None:
        track(tracker, run)
