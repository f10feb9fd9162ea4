"""``invariance evaluate``: of a benchmark model in its test environments, of a table's model on another table."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from invariance.cli.options import Json, errors, out, print_json
from invariance.cli.tables import needed

if TYPE_CHECKING:
    from invariance.evaluation import Scores
    from invariance.experiments.run import Run

MOST = 30
"""Environments of a table that are listed."""


def evaluate(
    folder: Annotated[Path, typer.Argument(help="A folder that 'invariance train' or 'invariance fit' wrote.")],
    data: Annotated[Path | None, typer.Argument(help="Labelled rows, for a model that 'invariance fit' wrote.")] = None,
    environment: Annotated[
        str | None, typer.Option("--environment", help="The column that says where a row is from.")
    ] = None,
    sampled: Annotated[
        bool, typer.Option("--sampled", help="Draw fresh test environments, as papers do, instead of exact scores.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the drawn environments.")] = 0,
    as_json: Json = False,
) -> None:
    """Score a saved model: in the test environments of its benchmark, or in every environment of a table."""
    from invariance.errors import BadValue

    if data is not None:
        if sampled:
            raise BadValue("--sampled draws environments of a benchmark; a table has its own")
        _table(folder, data, environment, as_json=as_json)
    elif environment is not None:
        raise BadValue(f"--environment names a column of a table; give one: invariance evaluate {folder} TABLE.csv")
    else:
        _benchmark(folder, seed, sampled=sampled, as_json=as_json)


def _benchmark(folder: Path, seed: int, *, sampled: bool, as_json: bool) -> None:
    from invariance.errors import BadValue
    from invariance.evaluation import evaluate as score_test
    from invariance.experiments.saved import load

    if _is_estimator(folder):
        raise BadValue(f"{folder} holds a model of a table; give labelled rows: invariance evaluate {folder} TABLE.csv")
    run, model, benchmark = load(folder)
    scores = score_test(model, benchmark, seed=seed, sampling=sampled)
    if as_json:
        how = "sampled" if sampled else "exact" if benchmark.mechanism else "plain"
        print_json({"folder": str(folder), "spec": run.spec.to_json(), "evaluation": how, **plain(scores)})
        return
    show(run, scores)
    if sampled:
        out().print(
            "Drawn afresh: even a perfectly invariant model shows a gap here. Without --sampled, scores are exact."
        )


def _is_estimator(folder: Path) -> bool:
    """Whether a folder holds a model of somebody's own data, which has no test environments."""
    from invariance.estimators.saved import FORMAT
    from invariance.folders import MANIFEST

    try:
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("format") == FORMAT


def _table(folder: Path, data: Path, environment: str | None, *, as_json: bool) -> None:
    needed(data)
    from invariance.assessment.sites import wilson
    from invariance.evaluation import Scores
    from invariance.fitted import Fitted
    from invariance.tables.frame import Pieces
    from invariance.tables.source import Source

    pieces = Pieces(Source.open(data), (fitted := Fitted.load(folder)).encoder, environment)
    found = fitted.score(pieces)
    scores = Scores(
        {name: right / rows for name, (right, rows) in found.items()},
        {name: wilson(right, rows) for name, (right, rows) in found.items()},
    )
    known = {str(name) for name in fitted.estimator.environments_}
    if as_json:
        rows = {name: many for name, (_, many) in found.items()}
        unseen = sorted(found.keys() - known)
        about = {"folder": str(folder), "data": str(data), "evaluation": "plain", "rows": rows, "unseen": unseen}
        print_json(about | plain(scores) | {"notes": list(pieces.notes)})
        return
    _show_environments(fitted.estimator.objective_.title, data, found, scores, known)
    for note in pieces.notes:
        errors().print(f"Note: {note}.", highlight=False, markup=False)


def _show_environments(
    title: str, data: Path, found: dict[str, tuple[int, int]], scores: "Scores", known: set[str]
) -> None:
    """A line for each environment, the lowest first."""
    from rich import box
    from rich.table import Table

    from invariance.report.formats import clean

    table = Table(title=f"{title} on {clean(data.name)}", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("environment", overflow="fold")
    for heading in ("rows", "right, %", "interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    order = sorted(found, key=lambda name: scores.by_environment[name])
    for name in order[:MOST]:
        low, high = (scores.intervals or {})[name]
        cells = (
            f"{found[name][1]:,}",
            f"{100 * scores.by_environment[name]:.1f}",
            f"{100 * low:.0f} to {100 * high:.0f}",
        )
        table.add_row(clean(name), *cells, "" if name in known else "new")
    console = out()
    console.print(table, markup=False)
    if len(order) > MOST:
        console.print(f"{len(order) - MOST:,} more environments, at all of which it does better.", highlight=False)
    console.print(
        f"average {100 * scores.mean:.1f} %, worst {100 * scores.worst:.1f} %, gap {100 * scores.gap:.1f} points",
        highlight=False,
    )


def plain(scores: "Scores") -> dict[str, Any]:
    """Scores as plain data, in percent."""
    return {
        "average": 100 * scores.mean,
        "worst": 100 * scores.worst,
        "gap": 100 * scores.gap,
        "agree": None if scores.agree is None else 100 * scores.agree,
        "oppose": None if scores.oppose is None else 100 * scores.oppose,
        "by_environment": {name: 100 * value for name, value in scores.by_environment.items()},
        "intervals": {name: [100 * end for end in ends] for name, ends in (scores.intervals or {}).items()},
    }


def show(run: "Run", scores: "Scores") -> None:
    """A table of the scores of one model."""
    from rich.table import Table

    from invariance.report.sparkline import sparkline

    spec = run.spec
    table = Table(title=f"{spec.objective.title} on {spec.data.title}, seed {spec.seed}", show_header=False)
    rows = [("average", scores.mean), ("worst", scores.worst), ("gap", scores.gap)]
    if scores.agree is not None and scores.oppose is not None:
        rows += [("spurious cue agrees (A₁)", scores.agree), ("spurious cue contradicts (A₀)", scores.oppose)]
    for name, value in rows:
        interval = (scores.intervals or {}).get({"average": "mean"}.get(name, name))
        span = f" ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})" if interval else ""
        table.add_row(name, f"{100 * value:.1f} %{span}")
    names = list(scores.by_environment)
    line = sparkline([100 * value for value in scores.by_environment.values()])
    table.add_row(f"{names[0]} … {names[-1]}", line)
    out().print(table)
