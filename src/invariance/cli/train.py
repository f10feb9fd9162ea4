"""``invariance train``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from invariance.cli import completion
from invariance.cli.follow import INTERRUPTED
from invariance.cli.options import Changes, Device, Json, RecipeName, errors, out, print_json, progress, say_partial
from invariance.cli.tracking import Track, tracking

if TYPE_CHECKING:
    from collections.abc import Callable

    from invariance.experiments.run import Executed
    from invariance.experiments.spec import Spec
    from invariance.experiments.trackers.base import Tracker
    from invariance.training.selection import History
    from invariance.training.train import Snapshot


def train(
    data: Annotated[str, typer.Argument(help="The data set (see: list data).", autocompletion=completion.data)],
    method: Annotated[str, typer.Argument(help="The method (see: list methods).", autocompletion=completion.methods)],
    recipe: RecipeName = "default",
    changes: Changes = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Decides split, noise, initial weights, order.")] = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to save (default: runs/DATA-METHOD-SEED).")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing run.")] = False,
    save_every: Annotated[
        float, typer.Option("--save-every", min=0, help="Seconds between checkpoints to resume from.")
    ] = 5.0,
    device: Device = "cpu",
    track: Track = None,
    as_json: Json = False,
) -> None:
    """Train one model and save it: weights as safetensors, and a manifest with everything that decided it.

    The same command resumes a run that was stopped. Several processes train one model together, each on a part of every
    batch, where torchrun starts them: torchrun --nproc-per-node 4 -m invariance train DATA METHOD.
    """
    from invariance.core.model_folder import claim
    from invariance.core.ranks import leads
    from invariance.experiments.spec import Spec, parse_changes

    spec = Spec.of(data, method, recipe, seed, parse_changes(changes or []))
    folder = output or Path("runs") / f"{spec.data_name}-{spec.method}-{seed}"
    if leads():
        claim(folder, overwrite=overwrite)
        say_partial(spec.data)
    tracker = tracking(track) if leads() else None
    executed = _executed(spec, folder, save_every, device, tracker)
    if leads():
        if tracker:
            tracker.close(executed.run.status)
        _conclude(executed, folder, as_json=as_json)


def _executed(
    spec: "Spec", folder: Path, save_every: float, device: str, tracker: "Tracker | None" = None
) -> "Executed":
    """The run, resumed from what is left of it in the folder."""
    import torch

    from invariance.experiments import resume
    from invariance.experiments.run import execute

    path = folder / f"{spec.key}.safetensors"
    saver = resume.Saver(path, save_every)
    torch.set_num_threads(1)
    log = _logger(tracker, spec)
    with progress() as bar:
        task = bar.add_task(f"{spec.objective.title} on {spec.data.title}", total=None)

        def watch(snapshot: "Snapshot", history: "History", seconds: float) -> None:
            bar.update(task, completed=snapshot.step, total=snapshot.steps)
            saver(snapshot, history, seconds)
            log(history)

        try:
            return execute(spec, watch, resume_from=resume.load_leaders(path), device=device)
        except KeyboardInterrupt:
            where = f"a checkpoint is in {folder}; the same command goes on" if path.exists() else "nothing was saved"
            errors().print(where, highlight=False)
            raise typer.Exit(INTERRUPTED) from None


def _logger(tracker: "Tracker | None", spec: "Spec") -> "Callable[[History], None]":
    """Give a tracker the checkpoints that it has not seen."""
    if tracker is None:
        return lambda history: None
    from invariance.experiments.trackers import begin
    from invariance.experiments.trackers.base import metrics

    begin(tracker, spec)
    seen = 0

    def log(history: "History") -> None:
        nonlocal seen
        for checkpoint in history[seen:]:
            tracker.log(checkpoint.step, metrics(checkpoint))
        seen = len(history)

    return log


def _conclude(executed: "Executed", folder: Path, *, as_json: bool) -> None:
    """Save the run, remove its checkpoint, show what came of it."""
    from invariance.cli.evaluate import show
    from invariance.experiments import resume
    from invariance.experiments.saved import save

    run = executed.run
    save(executed, folder)
    resume.remove(folder / f"{run.spec.key}.safetensors")
    if as_json:
        print_json({"folder": str(folder), **run.to_json()})
    elif run.history:
        show(run, run.history[-1].test)
    if not as_json:
        reason = f": {run.reason}" if run.reason else ""
        out().print(f"{run.status}{reason} in {run.seconds:.1f} s; saved to {folder}", highlight=False)
    if run.status != "finished":
        raise typer.Exit(3)
