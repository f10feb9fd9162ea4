"""``invariance train``."""

from pathlib import Path
from typing import Annotated

import typer

from invariance.cli.options import Changes, Json, RecipeName, out, print_json, progress, say_partial


def train(
    data: Annotated[str, typer.Argument(help="The data set (see: list data).")],
    method: Annotated[str, typer.Argument(help="The method (see: list methods).")],
    recipe: RecipeName = "default",
    changes: Changes = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Decides split, noise, initial weights, order.")] = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to save (default: runs/DATA-METHOD-SEED).")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing run.")] = False,
    as_json: Json = False,
) -> None:
    """Train one model and save it: weights as safetensors, and a manifest with everything that decided it."""
    import torch

    from invariance.cli.evaluate import show
    from invariance.core.model_folder import claim
    from invariance.experiments.run import execute
    from invariance.experiments.saved import save
    from invariance.experiments.spec import Spec, parse_changes

    spec = Spec.of(data, method, recipe, seed, parse_changes(changes or []))
    folder = output or Path("runs") / f"{spec.data_name}-{spec.method}-{seed}"
    claim(folder, overwrite=overwrite)
    say_partial(spec.data)
    torch.set_num_threads(1)
    with progress() as bar:
        task = bar.add_task(f"{spec.objective.title} on {spec.data.title}", total=None)
        executed = execute(
            spec,
            lambda snapshot, *_: bar.update(task, completed=snapshot.step, total=snapshot.steps),
        )
    run = executed.run
    save(executed, folder)
    if as_json:
        print_json({"folder": str(folder), **run.to_json()})
    elif run.history:
        show(run, run.history[-1].test)
    if not as_json:
        reason = f": {run.reason}" if run.reason else ""
        out().print(f"{run.status}{reason} in {run.seconds:.1f} s; saved to {folder}", highlight=False)
    if run.status != "finished":
        raise typer.Exit(3)
