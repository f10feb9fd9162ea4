"""``invariance evaluate``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from invariance.cli.options import Folder, Json, out, print_json

if TYPE_CHECKING:
    from invariance.evaluation import Scores
    from invariance.experiments.run import Run


def evaluate(
    folder: Folder,
    sampled: Annotated[
        bool, typer.Option("--sampled", help="Draw fresh test environments, as papers do, instead of exact scores.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the drawn environments.")] = 0,
    as_json: Json = False,
) -> None:
    """Score a saved model in every test environment."""
    from invariance.evaluation import evaluate as score_test
    from invariance.experiments.saved import load

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
