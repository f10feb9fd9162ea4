"""``invariance evaluate``: a benchmark model in its test environments, or a model of the user's data on other data."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from invariance.cli.options import Device, Json, errors, out, print_json, print_notes
from invariance.cli.user_data import Broken, load_fitted

if TYPE_CHECKING:
    from invariance.evaluation.scores import Scores
    from invariance.experiments.run import Run
    from invariance.fitting.model import Evaluated, Fitted
    from invariance.fitting.numbers import NumberScore

MAX_LISTED = 30
"""Environments that are listed one by one."""


def evaluate(
    folder: Annotated[Path, typer.Argument(help="A folder that 'invariance train' or 'invariance fit' wrote.")],
    data: Annotated[
        Path | None,
        typer.Argument(help="Labelled data for a model that 'invariance fit' wrote: a table, or a folder of images."),
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option(
            "--environment", help="Table: the column that names the environment of each row (default: as in training)."
        ),
    ] = None,
    broken: Broken = None,
    sampled: Annotated[
        bool,
        typer.Option(
            "--sampled", help="Benchmark: draw test environments at random, as papers do, in place of exact scores."
        ),
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Benchmark: the seed of --sampled.")] = 0,
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """Evaluate a saved model: in the test environments of its benchmark, or on labelled data of your own."""
    from invariance.core.errors import BadValue

    if data is not None:
        if sampled:
            raise BadValue("--sampled draws test environments of a benchmark; leave it out for data of your own")
        _user_data(folder, data, environment, broken, device, as_json=as_json)
    elif broken is not None:
        raise BadValue(f"--broken is for images; give a folder of them: invariance evaluate {folder} FOLDER")
    elif environment is not None:
        raise BadValue(f"--environment names a column of a table; give one: invariance evaluate {folder} TABLE.csv")
    else:
        _benchmark(folder, seed, device, sampled=sampled, as_json=as_json)


def _benchmark(folder: Path, seed: int, device: str, *, sampled: bool, as_json: bool) -> None:
    from invariance.core import model_folder
    from invariance.core.device import resolved
    from invariance.core.errors import BadValue
    from invariance.evaluation.scores import evaluate as score_test

    manifest = model_folder.read(folder)
    if manifest.kind != "run":
        raise BadValue(
            f"{folder} holds a model of your own data; give labelled data, a table or a folder of images: "
            f"invariance evaluate {folder} DATA"
        )
    run, model, benchmark = model_folder.restore(manifest)
    scores = score_test(model.to(resolved(device)), benchmark, seed=seed, sampling=sampled)
    if as_json:
        how = "sampled" if sampled else "exact" if benchmark.mechanism else "plain"
        print_json({"folder": str(folder), "spec": run.spec.to_json(), "evaluation": how, **plain(scores)})
        return
    show(run, scores)
    if sampled:
        out().print(
            "Test environments were sampled: even a perfectly invariant model shows a gap. Scores are exact without "
            "--sampled."
        )


def _user_data(
    folder: Path,
    data: Path,
    environment: str | None,
    broken: Literal["refuse", "skip"] | None,
    device: str,
    *,
    as_json: bool,
) -> None:
    notes: list[str] = []
    fitted = load_fitted(folder, broken, device)
    evaluated = fitted.score(data, environment, notes)
    known = {str(name) for name in fitted.estimator.environments_}
    if as_json:
        unseen = sorted(evaluated.samples.keys() - known)
        about = {"folder": str(folder), "data": str(data), "evaluation": "plain", "unseen": unseen}
        measured = plain(evaluated.scores) if evaluated.scores else plain_numbers(evaluated.numbers or {})
        drift = {name: drift.to_json() for name, drift in evaluated.drift.items()}
        print_json(about | {fitted.reader.unit: evaluated.samples} | measured | {"drift": drift, "notes": notes})
        return
    notes += [f"{name} is {drift}" for name, drift in evaluated.drift.items() if drift.unlike and name not in known]
    _show_environments(fitted, data, evaluated, known)
    print_notes(notes, errors())


def _show_environments(fitted: "Fitted", data: Path, evaluated: "Evaluated", known: set[str]) -> None:
    """A line for each environment, the worst first."""
    from rich import box
    from rich.table import Table

    from invariance.core.text import clean

    title = f"{fitted.estimator.method_.title} on {clean(data.name)}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("environment", overflow="fold")
    headings, lines, summary = _accuracies(evaluated.scores) if evaluated.scores else _errors(evaluated.numbers or {})
    for heading in (fitted.reader.unit, *headings):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for name in list(lines)[:MAX_LISTED]:
        seen = "" if name in known else "not in training"
        table.add_row(clean(name), f"{evaluated.samples[name]:,}", *lines[name], seen)
    console = out()
    console.print(table, markup=False)
    if len(lines) > MAX_LISTED:
        console.print(f"{len(lines) - MAX_LISTED:,} more environments, all of them better.", highlight=False)
    console.print(summary, highlight=False)


def _accuracies(scores: "Scores") -> tuple[tuple[str, ...], dict[str, tuple[str, ...]], str]:
    """Headings, the cells of every environment, and a summary; the lowest accuracy comes first."""
    lines: dict[str, tuple[str, ...]] = {}
    for name in sorted(scores.by_environment, key=scores.by_environment.__getitem__):
        low, high = (scores.intervals or {})[name]
        lines[name] = (f"{100 * scores.by_environment[name]:.1f}", f"{100 * low:.0f} to {100 * high:.0f}")
    summary = f"average {100 * scores.mean:.1f} %, worst {100 * scores.worst:.1f} %, gap {100 * scores.gap:.1f} points"
    return ("accuracy, %", "95 % interval"), lines, summary


def _errors(numbers: "Mapping[str, NumberScore]") -> tuple[tuple[str, ...], dict[str, tuple[str, ...]], str]:
    """The same for a regression; the largest error comes first."""
    order = sorted(numbers, key=lambda name: -numbers[name].rmse)
    lines = {name: tuple(f"{value:.4g}" for value in numbers[name]) for name in order}
    mean = sum(score.rmse for score in numbers.values()) / len(numbers)
    return ("RMSE", "MAE", "R²"), lines, f"average RMSE {mean:.4g}, worst {numbers[order[0]].rmse:.4g}"


def plain_numbers(numbers: "Mapping[str, NumberScore]") -> dict[str, Any]:
    """The errors of a regression as plain data, in units of the label."""
    each = [score.rmse for score in numbers.values()]
    summary = {"average_rmse": sum(each) / len(each), "worst_rmse": max(each)}
    return summary | {"by_environment": {name: score.to_json() for name, score in numbers.items()}}


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

    spec = run.spec
    table = Table(title=f"{spec.method.title} on {spec.data.title}, seed {spec.seed}", show_header=False)
    for line in (*_summary(scores), *_by_environment(run, scores)):
        table.add_row(*line)
    out().print(table, markup=False)


def _summary(scores: "Scores") -> list[tuple[str, str]]:
    """Average, worst and gap with their intervals; A₁ and A₀ where a mechanism is known."""
    values = [("average", "mean", scores.mean), ("worst", "worst", scores.worst), ("gap", "gap", scores.gap)]
    lines = []
    for name, key, value in values:
        interval = (scores.intervals or {}).get(key)
        span = f" ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})" if interval else ""
        lines.append((name, f"{100 * value:.1f} %{span}"))
    if scores.agree is not None and scores.oppose is not None:
        lines.append(("spurious cue agrees (A₁)", f"{100 * scores.agree:.1f} %"))
        lines.append(("spurious cue contradicts (A₀)", f"{100 * scores.oppose:.1f} %"))
    return lines


def _by_environment(run: "Run", scores: "Scores") -> list[tuple[str, str]]:
    """A line per environment; one sparkline for many environments, or for those of a mechanism."""
    from invariance.core.text import clean
    from invariance.report.render.sparkline import sparkline

    names = list(scores.by_environment)
    if scores.agree is not None or len(names) > MAX_LISTED:
        line = sparkline([100 * value for value in scores.by_environment.values()])
        return [(f"{clean(names[0])} … {clean(names[-1])}", line)]
    trained = run.history[-1].train.by_environment if run.history else scores.by_environment
    return [
        (f"{clean(name)}{'' if name in trained else ' (not trained on)'}", f"{100 * value:.1f} %")
        for name, value in scores.by_environment.items()
    ]
