"""``invariance compare``: the main job."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from invariance.cli.options import Changes, Json, RecipeName, out, print_json, progress

if TYPE_CHECKING:
    from invariance.experiments.comparison import Comparison, Row

Positive = typer.Option(min=1)


def compare(
    data: Annotated[str, typer.Option("--data", help="The data set (see: list data).")] = "colored-digits",
    methods: Annotated[str, typer.Option("--methods", help="Names joined by commas, or 'all'.")] = "all",
    recipe: RecipeName = "short",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many trials.")] = 3,
    first_seed: Annotated[int, typer.Option("--first-seed", min=0, help="The seed of the first trial.")] = 0,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes at a time.")] = 2,
    selection: Annotated[
        str,
        typer.Option(
            "--selection", help="Which checkpoint counts: last, training-domain, leave-one-environment-out, oracle."
        ),
    ] = "last",
    changes: Changes = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Where the curves go (default: invariance-compare.png).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train several methods with several seeds and show who is fooled by the spurious cue."""
    from invariance.errors import BadValue
    from invariance.experiments.comparison import Comparison
    from invariance.experiments.spec import Spec, parse_changes
    from invariance.objectives import METHODS
    from invariance.selection import rule

    rule(selection)
    if picture and not picture.parent.is_dir():
        raise BadValue(f"cannot write {picture}: there is no folder {picture.parent}")
    names = list(METHODS.classes) if methods == "all" else [name.strip() for name in methods.split(",")]
    names.sort(key=lambda name: (METHODS[name].oracle, METHODS[name].needs_environments, METHODS[name].title))
    fields = parse_changes(changes or [])
    trials = range(first_seed, first_seed + seeds)
    comparison = Comparison(
        tuple(tuple(Spec.of(data, name, recipe, seed, fields) for seed in trials) for name in dict.fromkeys(names)),
        selection,
    )
    rows = _run(comparison, workers)
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        _show(rows)
    if picture or not as_json:
        _draw(rows, picture or Path("invariance-compare.png"), quiet=as_json)


def _run(comparison: "Comparison", workers: int) -> "list[Row]":
    work = comparison.work()
    runs = []
    with progress() as bar:
        task = bar.add_task(f"training {len(work)} models", total=len(work))
        for run in comparison.run(workers):
            runs.append(run)
            bar.update(task, advance=1, description=f"{run.spec.objective.title}, seed {run.spec.seed}")
    return comparison.rows(runs)


def _show(rows: "list[Row]") -> None:
    import numpy as np
    from rich.table import Table

    from invariance.report.curves import sparkline
    from invariance.selection import label

    spec = rows[0].spec
    environments = list(next((row.curve() for row in rows if row.chosen), {}))
    table = Table(
        title=f"{spec.data.title} · recipe {spec.recipe_name} · {len(rows[0].runs)} seeds from {spec.seed}",
        caption=f"accuracy in %, mean ± std over seeds; checkpoint: {label(rows[0].selection)}; "
        f"{len(environments)} test environments",
    )
    span = f"{environments[0]} … {environments[-1].removeprefix('β=')}" if environments else ""
    table.add_column("method")
    for heading in ("average", "worst", "gap"):
        table.add_column(heading, justify="right")
    table.add_column(span, no_wrap=True)
    table.add_column("time", justify="right")
    table.add_column("status")
    for row in rows:
        cells = [
            f"{np.mean(values):.1f} ± {np.std(values):.1f}" if (values := row.values(metric)) else "–"
            for metric in ("mean", "worst", "gap")
        ]
        line = sparkline([float(np.mean(values)) for values in row.curve().values()])
        seconds = np.mean([run.seconds for run in row.runs])
        oracle = " (oracle)" if row.spec.objective.oracle else ""
        table.add_row(row.spec.objective.title + oracle, *cells, line, f"{seconds:.1f} s", row.status)
    out().print(table)


def _draw(rows: "list[Row]", path: Path, *, quiet: bool) -> None:
    from invariance.report.curves import draw

    spec = rows[0].spec
    curves = {row.spec.objective.title: row.curve() for row in rows if row.chosen}
    try:
        draw(curves, f"{spec.data.title}, recipe {spec.recipe_name}, {len(rows[0].runs)} seeds", path)
    except ModuleNotFoundError:
        note = "no picture: it needs matplotlib (pip install 'invariance[report]')"
    else:
        note = f"curves: {path}"
    if not quiet:
        out().print(note, highlight=False)
