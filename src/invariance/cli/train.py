"""``invariance train``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from invariance.cli import completion
from invariance.cli.ending import INCOMPLETE
from invariance.cli.follow import INTERRUPTED, Address
from invariance.cli.options import Changes, Device, Json, RecipeName, errors, out, print_json, progress, say_partial
from invariance.cli.tracking import Track, say_tracked, tracking

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
    ranks: Annotated[
        int | None,
        typer.Option("--ranks", min=1, help="Processes on a Ray cluster that train together, with a core each."),
    ] = None,
    address: Address = None,
    device: Device = "cpu",
    track: Track = None,
    as_json: Json = False,
) -> None:
    """Train one model and save it: weights as safetensors, and a manifest with everything that decided it.

    The same command resumes a run that was stopped. Several processes train one model together, each on a part of every
    batch, with --ranks, or where torchrun starts them: torchrun --nproc-per-node 4 -m invariance train DATA METHOD.
    """
    from invariance.core.errors import BadValue
    from invariance.core.model_folder import claim
    from invariance.core.ranks import count, leads
    from invariance.experiments.spec import Spec, parse_changes

    if ranks and count() > 1:
        raise BadValue(
            "--ranks starts processes on a Ray cluster, and torchrun has started some; leave one of them out"
        )
    if address and not ranks:
        raise BadValue("--address is for --ranks, which trains on a Ray cluster; say how many")
    spec = Spec.of(data, method, recipe, seed, parse_changes(changes or []))
    folder = output or Path("runs") / f"{spec.data_name}-{spec.method_name}-{seed}"
    if leads():
        claim(folder, overwrite=overwrite)
        say_partial(spec.data)
    tracker = tracking(track) if leads() else None
    log = _logger(tracker, spec)
    executed = _executed(spec, folder, save_every, device, log, (ranks, address) if ranks else None)
    log(executed.run.history)
    if leads():
        if tracker:
            tracker.close(executed.run.status)
            say_tracked(tracker)
        _conclude(executed, folder, as_json=as_json)


def _executed(
    spec: "Spec",
    folder: Path,
    save_every: float,
    device: str,
    log: "Callable[[History], None]",
    cluster: tuple[int, str | None] | None,
) -> "Executed":
    """The run, resumed from what is left of it in the folder; on a ``cluster`` by so many ranks at an address."""
    path = folder / f"{spec.key}.safetensors"
    with progress() as bar:
        task = bar.add_task(f"{spec.method.title} on {spec.data.title}", total=None)

        def show(step: int, steps: int) -> None:
            bar.update(task, completed=step, total=steps)

        try:
            if cluster:
                return _on_cluster(spec, path, save_every, device, cluster, show, log)
            return _here(spec, path, save_every, device, show, log)
        except KeyboardInterrupt:
            where = f"a checkpoint is in {folder}; the same command goes on" if path.exists() else "nothing was saved"
            errors().print(where, highlight=False)
            raise typer.Exit(INTERRUPTED) from None


def _here(
    spec: "Spec",
    path: Path,
    save_every: float,
    device: str,
    show: "Callable[[int, int], None]",
    log: "Callable[[History], None]",
) -> "Executed":
    """The run by this process, and perhaps by others that torchrun started beside it."""
    import torch

    from invariance.experiments import resume
    from invariance.experiments.run import execute

    saver = resume.Saver(path, save_every)
    torch.set_num_threads(1)

    def watch(snapshot: "Snapshot", history: "History", seconds: float) -> None:
        show(snapshot.step, snapshot.steps)
        saver(snapshot, history, seconds)
        log(history)

    return execute(spec, watch, resume_from=resume.load_leaders(path), device=device)


def _on_cluster(
    spec: "Spec",
    path: Path,
    save_every: float,
    device: str,
    cluster: tuple[int, str | None],
    show: "Callable[[int, int], None]",
    log: "Callable[[History], None]",
) -> "Executed":
    """The run by ranks on a Ray cluster, whose checkpoints are written here."""
    from invariance.core.ray_cluster import connect
    from invariance.experiments import resume
    from invariance.experiments.engines.ray import Ray
    from invariance.experiments.ray_ranks import on_ranks
    from invariance.experiments.ray_task import Step

    ranks, address = cluster
    connect(address, cores=ranks)
    engine = Ray(address=address, save_every=save_every, device=device)
    training = on_ranks(spec, ranks, engine, resume.load(path))
    while True:
        try:
            content = next(training)
        except StopIteration as end:
            executed: Executed = end.value
            return executed
        if isinstance(content, Step):
            show(content.step, content.steps)
        else:
            resume.save(content, path)
            log(content.history)


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
        raise typer.Exit(INCOMPLETE)
