"""``invariance compare``: the main job."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from invariance.cli.follow import STORE, StorePath, Workers, carry_out
from invariance.cli.options import Changes, Json, RecipeName, out, print_json, writable

if TYPE_CHECKING:
    from invariance.core.artefacts import Figure
    from invariance.experiments.comparison import Comparison, ComparisonRow


def compare(
    data: Annotated[str, typer.Option("--data", help="The data set (see: list data).")] = "colored-digits",
    methods: Annotated[str, typer.Option("--methods", help="Names joined by commas, or 'all'.")] = "all",
    recipe: RecipeName = "default",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many trials.")] = 3,
    first_seed: Annotated[int, typer.Option("--first-seed", min=0, help="The seed of the first trial.")] = 0,
    workers: Workers = None,
    selection: Annotated[
        str,
        typer.Option(
            "--selection",
            help="Which checkpoint counts: invariant, last, training-domain, leave-one-environment-out, oracle.",
        ),
    ] = "invariant",
    changes: Changes = None,
    store: StorePath = STORE,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Where the curves go (default: invariance-compare.png).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train several methods with several seeds and show who is fooled by the spurious cue."""
    from invariance.experiments.comparison import Comparison
    from invariance.experiments.spec import Spec, parse_changes
    from invariance.methods import METHODS
    from invariance.training.selection import rule

    rule(selection)
    if picture:
        writable(picture, ".png", ".jpg", ".pdf", ".svg")
    names = list(METHODS.classes) if methods == "all" else methods.split(",")
    names = list({METHODS[name.strip()]: name.strip() for name in names}.values())
    names.sort(key=lambda name: (METHODS[name].oracle, METHODS[name].needs_environments, METHODS[name].title))
    fields = _by_method(names, parse_changes(changes or []))
    trials = range(first_seed, first_seed + seeds)
    comparison = Comparison(
        tuple(
            tuple(Spec.of(data, name, recipe, seed, fields[name]) for seed in trials) for name in dict.fromkeys(names)
        ),
        selection,
    )
    rows = _run(comparison, store, workers)
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        _show(rows)
    if picture or not as_json:
        _draw(rows, picture or Path("invariance-compare.png"), quiet=as_json)
    if not any(row.chosen for row in rows):
        raise typer.Exit(3)


def _by_method(names: list[str], changes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Changes of the objective go to every method that has the field; one of them must."""
    from invariance.core.catalogue import defaults
    from invariance.core.errors import UnknownName
    from invariance.methods import METHODS

    known = {name: defaults(METHODS[name]).keys() for name in names}
    everywhere = {field for fields in known.values() for field in fields}
    wanted = changes.get("objective", {})
    if unknown := wanted.keys() - everywhere:
        raise UnknownName.of("field of these methods", min(unknown), everywhere)
    return {
        name: changes | {"objective": {field: value for field, value in wanted.items() if field in known[name]}}
        for name in names
    }


def _run(comparison: "Comparison", store: Path, workers: int | None) -> "list[ComparisonRow]":
    from invariance.experiments.store import Store

    work = comparison.work()
    carry_out(work, store, workers)
    with Store(store) as kept:
        return comparison.rows([run for spec in work if (run := kept.get(spec.key))])


def _show(rows: "list[ComparisonRow]") -> None:
    import numpy as np
    from rich import box
    from rich.table import Table

    from invariance.report.render.sparkline import sparkline
    from invariance.training.selection import label

    spec = rows[0].spec
    environments = list(next((row.curve() for row in rows if row.chosen), {}))
    table = Table(
        title=f"{spec.data.title} · recipe {spec.recipe_name} · {_seeds(rows[0])} · "
        f"checkpoint: {label(rows[0].selection)}",
        caption=f"accuracy in % over {len(environments)} test environments, mean ± std over seeds",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("method", no_wrap=True)
    for heading in ("average", "worst", "gap"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column(f"{environments[0]} … {environments[-1]}" if environments else "", no_wrap=True)
    table.add_column("a run", justify="right", no_wrap=True)
    for row in rows:
        cells = [_mean_std(row.values(metric)) for metric in ("mean", "worst", "gap")]
        line = sparkline([float(np.mean(values)) for values in row.curve().values()])
        seconds = f"{np.mean([run.seconds for run in row.runs]):.1f} s"
        table.add_row(row.spec.objective.title, *cells, line, seconds)
    console = out()
    console.print(table)
    for note in _notes(rows):
        console.print(note, highlight=False)


def _seeds(row: "ComparisonRow") -> str:
    first, last = row.runs[0].spec.seed, row.runs[-1].spec.seed
    return f"seed {first}" if first == last else f"seeds {first}–{last}"


def _mean_std(values: list[float]) -> str:
    import numpy as np

    return f"{np.mean(values):.1f} ±{np.std(values):4.1f}" if values else "–"


def _notes(rows: "list[ComparisonRow]") -> list[str]:
    """What a newcomer should read off the table, and what went wrong."""
    import numpy as np

    notes = [f"{row.spec.objective.title}: {row.status}, left out of its averages" for row in rows if row.failures]
    plain = next((row for row in rows if row.spec.method == "erm" and row.chosen), None)
    invariant = [row for row in rows if row.chosen and row.spec.objective.needs_environments > 1]
    if plain and invariant:
        best = max(invariant, key=lambda row: float(np.mean(row.values("worst"))))
        notes.append(
            f"Where the spurious cue misleads most, ERM is right on {np.mean(plain.values('worst')):.0f} % of the "
            f"samples and {best.spec.objective.title} on {np.mean(best.values('worst')):.0f} %."
        )
    fooled = [
        row.spec.objective.title
        for row in invariant
        if plain and np.mean(row.values("gap")) > 0.9 * np.mean(plain.values("gap"))
    ]
    if fooled:
        notes.append(f"{', '.join(fooled)}: as fooled as ERM here (see: invariance list methods).")
    if any(row.spec.objective.oracle for row in rows):
        notes.append("GrayScale is an oracle: it never sees the spurious cue.")
    return notes


def _draw(rows: "list[ComparisonRow]", path: Path, *, quiet: bool) -> None:
    try:
        from invariance.report.render.matplotlib_figures import draw
    except ModuleNotFoundError:
        note = "no picture: it needs matplotlib (pip install 'invariance[report]')"
    else:
        draw(_figure(rows), path, path.suffix.lower().removeprefix("."))
        note = f"curves: {path}"
    if not quiet:
        out().print(note, highlight=False)


def _figure(rows: "list[ComparisonRow]") -> "Figure":
    from invariance.core.artefacts import Figure
    from invariance.report.drawings import spectrum
    from invariance.report.settings import Setting

    spec = rows[0].spec
    panel = spectrum(Setting(spec.data.title, "", {row.spec.objective.title: row for row in rows}))
    title = f"{spec.data.title}, recipe {spec.recipe_name}, {_seeds(rows[0])}"
    return Figure("compare", title, "", (panel,) if panel else ())
