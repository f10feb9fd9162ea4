"""``invariance tune``: hyper-parameters of a method, found by Optuna."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from invariance.cli import completion
from invariance.cli.ending import INCOMPLETE
from invariance.cli.follow import (
    INTERRUPTED,
    QUIET,
    STORE,
    Address,
    EngineName,
    Fresh,
    Reuse,
    StorePath,
    Workers,
    carry_out,
)
from invariance.cli.options import (
    MAX_SEEDS,
    Changes,
    Checkpoints,
    Device,
    Json,
    RecipeName,
    draw,
    errors,
    out,
    print_json,
    writable,
)

if TYPE_CHECKING:
    from invariance.tuning.tune import Tuning

PICTURE = Path("invariance-tune.png")


def tune(
    data: Annotated[
        str, typer.Argument(help="The data set to tune on (see: list data).", autocompletion=completion.data)
    ],
    method: Annotated[str, typer.Argument(help="The method (see: list methods).", autocompletion=completion.methods)],
    recipe: RecipeName = "default",
    trials: Annotated[int, typer.Option("--trials", min=1, help="How many in all; those in the study count.")] = 50,
    rule: Annotated[
        str,
        typer.Option(
            "--rule",
            help="What scores a trial: invariant, training-domain, leave-one-environment-out, oracle, transfer.",
        ),
    ] = "invariant",
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=MAX_SEEDS, help="Runs of each trial, one per seed.")] = 1,
    first_seed: Annotated[int, typer.Option("--first-seed", min=0, help="Tables report seeds from 0.")] = 100,
    changes: Changes = None,
    search: Annotated[
        list[str] | None,
        typer.Option(
            "--search",
            metavar="SECTION.FIELD=RANGE",
            help="Search a field in another range than the method's own: log:LOW:HIGH, uniform:LOW:HIGH, int:LOW:HIGH "
            "or one-of:FIRST:SECOND. May be repeated.",
        ),
    ] = None,
    study: Annotated[Path, typer.Option("--study", help="The file of the search, an Optuna study.")] = Path("tune.db"),
    store: StorePath = STORE,
    workers: Workers = None,
    engine: EngineName = "local",
    address: Address = None,
    checkpoints: Checkpoints = None,
    device: Device = "cpu",
    fresh: Fresh = False,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Where the plot goes (default: invariance-tune.png).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Search for the hyper-parameters of a method. The same command goes on where it was stopped."""
    from invariance.experiments.engines import chosen
    from invariance.experiments.spec import parse_changes
    from invariance.recipes.search import parse_search
    from invariance.tuning.tune import tune as search_for

    if picture or not as_json:
        writable(picture or PICTURE, ".png", ".jpg", ".pdf", ".svg")
    runner = chosen(engine, workers=workers, address=address, device=device, fresh=fresh, checkpoints=checkpoints)
    reuse = Reuse()
    try:
        tuning = search_for(
            data,
            method,
            recipe,
            trials=trials,
            rule=rule,
            seeds=seeds,
            first_seed=first_seed,
            changes=parse_changes(changes or []),
            ranges=parse_search(search or []),
            study=study,
            store=store,
            engine=runner,
            run=lambda specs, driver: reuse.update(carry_out(specs, store, runner, driver=driver)),
            watch=_Progress(),
        )
    except KeyboardInterrupt:  # between two rounds of runs
        errors().print(f"what is finished is in {study} and {store}; the same command goes on", highlight=False)
        raise typer.Exit(INTERRUPTED) from None
    _show(tuning, picture, as_json=as_json)
    if not as_json:
        reuse.say()
    if not tuning.best:
        raise typer.Exit(INCOMPLETE)


class _Progress:
    """A line after each round of trials; where there is no terminal, one now and then."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def __call__(self, tuning: "Tuning") -> None:
        console = errors()
        if console.is_terminal or time.monotonic() - self.last > QUIET:
            best = f"best score {tuning.best.score:.2f}" if tuning.best else "none scored yet"
            console.print(f"{len(tuning.trials)} of {tuning.budget} trials, {best}", highlight=False)
            self.last = time.monotonic()


def _show(tuning: "Tuning", picture: Path | None, *, as_json: bool) -> None:
    from invariance.tuning.show import figure, table

    if as_json:
        print_json(tuning.to_json())
    else:
        from invariance.report.render.terminal import show

        console = out()
        console.print(show(table(tuning)))
        if tuning.best:
            label = " (the rule has seen test data)" if tuning.to_json()["sees_test"] else ""
            console.print(f"best settings{label}:", highlight=False)
            console.print(tuning.options, highlight=False, markup=False, soft_wrap=True)
    if tuning.best and (picture or not as_json):
        draw(figure(tuning), picture or PICTURE, "trials", quiet=as_json)
