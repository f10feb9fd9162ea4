"""``invariance evaluate``: of a benchmark model in its test environments, of one's own model on other data."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from invariance.cli.options import Json, errors, out, print_json
from invariance.cli.own import Broken, opened

if TYPE_CHECKING:
    from invariance.evaluation.scores import Scores
    from invariance.experiments.run import Run
    from invariance.fitting.model import Fitted

MOST = 30
"""Environments that are listed one by one."""


def evaluate(
    folder: Annotated[Path, typer.Argument(help="A folder that 'invariance train' or 'invariance fit' wrote.")],
    data: Annotated[
        Path | None, typer.Argument(help="Labelled data, for a model that 'invariance fit' wrote: a table or a folder.")
    ] = None,
    environment: Annotated[
        str | None, typer.Option("--environment", help="Table: the column that says where a row is from.")
    ] = None,
    broken: Broken = None,
    sampled: Annotated[
        bool, typer.Option("--sampled", help="Draw fresh test environments, as papers do, instead of exact scores.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the drawn environments.")] = 0,
    as_json: Json = False,
) -> None:
    """Score a saved model: in the test environments of its benchmark, or in every environment of data of your own."""
    from invariance.core.errors import BadValue

    if data is not None:
        if sampled:
            raise BadValue("--sampled draws environments of a benchmark; data of your own have theirs")
        _own(folder, data, environment, broken, as_json=as_json)
    elif broken is not None:
        raise BadValue(f"--broken is for images; give a folder of them: invariance evaluate {folder} FOLDER")
    elif environment is not None:
        raise BadValue(f"--environment names a column of a table; give one: invariance evaluate {folder} TABLE.csv")
    else:
        _benchmark(folder, seed, sampled=sampled, as_json=as_json)


def _benchmark(folder: Path, seed: int, *, sampled: bool, as_json: bool) -> None:
    from invariance.core.errors import BadValue
    from invariance.evaluation.scores import evaluate as score_test
    from invariance.experiments.saved import load

    if _is_estimator(folder):
        raise BadValue(
            f"{folder} holds a model of data of your own; give some with labels, a table or a folder of images: "
            f"invariance evaluate {folder} DATA"
        )
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
    from invariance.core.model_folder import MANIFEST
    from invariance.estimators.saved import FORMAT

    try:
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("format") == FORMAT


def _own(
    folder: Path, data: Path, environment: str | None, broken: Literal["refuse", "skip"] | None, *, as_json: bool
) -> None:
    from invariance.evaluation.scores import Scores
    from invariance.fitting.by_environment import wilson

    notes: list[str] = []
    fitted = opened(folder, broken)
    found = fitted.score(data, environment, notes)
    scores = Scores(
        {name: right / rows for name, (right, rows) in found.items()},
        {name: wilson(right, rows) for name, (right, rows) in found.items()},
    )
    known = {str(name) for name in fitted.estimator.environments_}
    if as_json:
        rows = {name: many for name, (_, many) in found.items()}
        unseen = sorted(found.keys() - known)
        about = {"folder": str(folder), "data": str(data), "evaluation": "plain", "unseen": unseen}
        print_json(about | {fitted.reader.unit: rows} | plain(scores) | {"notes": notes})
        return
    _show_environments(fitted, data, found, scores, known)
    for note in notes:
        errors().print(f"Note: {note}.", highlight=False, markup=False)


def _show_environments(
    fitted: "Fitted", data: Path, found: dict[str, tuple[int, int]], scores: "Scores", known: set[str]
) -> None:
    """A line for each environment, the lowest first."""
    from rich import box
    from rich.table import Table

    from invariance.report.render.formats import clean

    title = f"{fitted.estimator.objective_.title} on {clean(data.name)}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("environment", overflow="fold")
    for heading in (fitted.reader.unit, "right, %", "interval"):
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

    from invariance.report.render.formats import clean
    from invariance.report.render.sparkline import sparkline

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
    if scores.agree is None and len(names) <= MOST:
        trained = run.history[-1].train.by_environment if run.history else scores.by_environment
        for name, value in scores.by_environment.items():
            table.add_row(f"{clean(name)}{'' if name in trained else ' (not trained on)'}", f"{100 * value:.1f} %")
    else:
        line = sparkline([100 * value for value in scores.by_environment.values()])
        table.add_row(f"{clean(names[0])} … {clean(names[-1])}", line)
    out().print(table, markup=False)
