"""``invariance runs``: what is in the store, or in the file of published runs."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from invariance.cli.follow import STORE, FromPublished, StorePath, open_runs, span
from invariance.cli.options import Json, conclude, out, print_json, writable
from invariance.core.atomic import atomic_write
from invariance.core.fields import finite, flattened
from invariance.core.text import spreadsheet_text

if TYPE_CHECKING:
    from invariance.core.artefacts import Table
    from invariance.experiments.store import Store, Summary

app = typer.Typer(no_args_is_help=True, help="Finished runs: list, show, export, publish, remove.")

Data = Annotated[str | None, typer.Option("--data", help="Only this data set.")]
Method = Annotated[str | None, typer.Option("--method", help="Only this method.")]
Recipe = Annotated[str | None, typer.Option("--recipe", help="Only this recipe.")]
Status = Annotated[str | None, typer.Option("--status", help="Only finished, collapsed, diverged or failed ones.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Only this seed.")]
STATUSES = ("finished", "collapsed", "diverged", "failed")


@app.command("list")
def list_runs(
    data: Data = None,
    method: Method = None,
    recipe: Recipe = None,
    status: Status = None,
    seed: Seed = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Show the newest ones only; 0 shows all.")] = 50,
    store: StorePath = STORE,
    published: FromPublished = False,
    as_json: Json = False,
) -> None:
    """The newest runs, one per line."""
    from invariance.report.render.terminal import show

    with open_runs(store, published) as opened:
        summaries = opened.summaries(**_filters(data, method, recipe, status, seed))
    if as_json:
        print_json([summary._asdict() for summary in summaries])
        return
    newest = f", the newest {limit} shown (--limit 0 shows all)" if 0 < limit < len(summaries) else ""
    title = f"{len(summaries)} {'published runs' if published else f'runs in {store}'}{newest}"
    out().print(show(_table(title, summaries[-limit:])))


@app.command()
def show(
    key: Annotated[str, typer.Argument(help="The run's key, or enough of its beginning.")],
    store: StorePath = STORE,
    published: FromPublished = False,
    as_json: Json = False,
) -> None:
    """One run: what decided it, how it went, what it reached."""
    from rich.text import Text

    from invariance.cli.evaluate import show as show_scores
    from invariance.experiments.spec import STORED_NAMES
    from invariance.report.render.terminal import show as shown

    with open_runs(store, published) as opened:
        key = opened.find(key)
        run = opened.get(key)
        (record,) = opened.records(key=key)
    assert run  # noqa: S101 - it was just found
    if as_json:
        print_json(record)
        return
    console = out()
    if run.history:
        show_scores(run, run.history[-1].test)
        console.print(shown(_history(run.history)))
    console.print(Text(f"{run.status}{f': {run.reason}' if run.reason else ''}, {span(run.seconds)}"))
    names = {stored: name for name, stored in STORED_NAMES.items()}
    spec = {names.get(name, name): fields for name, fields in record["spec"].items()}
    facts = _columns(spec) | _columns({"versions": record["versions"], "machine": record["machine"]})
    for name, value in (facts | {"weights": run.weights, "key": key}).items():
        console.print(Text(f"  {name} = {value}", "dim"))


@app.command()
def export(
    file: Annotated[Path, typer.Argument(help="Ends in .csv, .parquet or .jsonl; the last holds histories too.")],
    data: Data = None,
    method: Method = None,
    recipe: Recipe = None,
    status: Status = None,
    seed: Seed = None,
    store: StorePath = STORE,
    published: FromPublished = False,
    as_json: Json = False,
) -> None:
    """Write runs to a file, for other programs. Numbers that are not finite are left empty; the status says why."""
    writable(file, ".csv", ".parquet", ".jsonl")
    filters = _filters(data, method, recipe, status, seed)
    write = {".csv": _csv, ".parquet": _parquet, ".jsonl": _jsonl}[file.suffix.lower()]
    with atomic_write(file) as part, open_runs(store, published) as opened:
        many = write(opened, filters, part)
    conclude(f"{many} runs: {file}", {"file": str(file), "runs": many}, as_json=as_json)


@app.command()
def publish(
    scale: Annotated[
        list[str] | None, typer.Option("--scale", help="Only runs of this scale (default: all but smoke); repeat.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to (default: the file that comes with the package).")
    ] = None,
    store: StorePath = STORE,
    as_json: Json = False,
) -> None:
    """Add the runs of all studies, however they ended, to the file of published runs. Failed ones are left out."""
    from invariance.core.errors import UnknownName
    from invariance.experiments import published
    from invariance.studies import STUDIES
    from invariance.studies.support.scales import SCALES

    scales = scale or [name for name in SCALES if name != "smoke"]
    for name in set(scales) - SCALES.keys():
        raise UnknownName.of("scale", name, SCALES)
    plans = [cls().plan(name) for name in scales for cls in STUDIES.classes.values()]
    trials = {arm.spec.trial.key for plan in plans for arm in plan.arms if arm.spec}
    file = output or published.FILE
    with open_runs(store, published=False) as opened:
        many = published.publish(opened, trials, file)
    text = f"{many.given} runs of studies, {many.new} of them new; {many.all} in {file}"
    conclude(text, {"file": str(file), **many._asdict()}, as_json=as_json)


@app.command()
def remove(
    keys: Annotated[list[str] | None, typer.Argument(help="Keys, or enough of their beginnings.")] = None,
    data: Data = None,
    method: Method = None,
    recipe: Recipe = None,
    status: Status = None,
    seed: Seed = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    store: StorePath = STORE,
    as_json: Json = False,
) -> None:
    """Delete runs by key, or all that a filter finds."""
    from invariance.core.errors import BadValue

    filters = _filters(data, method, recipe, status, seed)
    if bool(keys) == any(value is not None for value in filters.values()):
        raise BadValue("say which runs to remove: by key, or by a filter such as --status failed, not both")
    with open_runs(store, published=False) as opened:
        doomed = [opened.find(key) for key in keys] if keys else [s.key for s in opened.summaries(**filters)]
        if doomed and not yes:
            typer.confirm(f"Remove {len(doomed)} {'run' if len(doomed) == 1 else 'runs'} from {store}?", abort=True)
        many = opened.remove(doomed)
    line = f"removed {many} run{'' if many == 1 else 's'} from {store}"
    conclude(line, {"store": str(store), "removed": many}, as_json=as_json)


def _filters(
    data: str | None, method: str | None, recipe: str | None, status: str | None, seed: int | None
) -> dict[str, Any]:
    from invariance.core.errors import UnknownName

    if status is not None and status not in STATUSES:
        raise UnknownName.of("status", status, STATUSES)
    return {"data": data, "method": method, "recipe": recipe, "status": status, "seed": seed}


def _table(title: str, summaries: "list[Summary]") -> "Table":
    from invariance.core.artefacts import Column, Line, Quantity, Table

    lines = []
    for s in summaries:
        scores = (Quantity(() if value is None else (100 * value,)) for value in (s.average, s.gap))
        method = s.method if s.hold_out is None else f"{s.method} without {s.hold_out}"
        lines.append(Line(s.key[:8], (s.data, method, s.recipe, s.seed, *scores, s.seconds, s.status)))
    names = ("data", "method", "recipe", "seed", "average", "gap", "seconds", "status")
    return Table("runs", title, "", "key", tuple(map(Column, names)), tuple(lines))


def _history(history: Iterable[Any]) -> "Table":
    from invariance.core.artefacts import Column, Line, Table

    lines = []
    for c in history:
        v = c.diagnostics
        diagnostics = (v.penalty, v.logit_scale, v.feature_norm, v.head_norm) if v else (None,) * 4
        scores = (100 * value for value in (c.train.mean, c.test.mean, c.test.gap))
        lines.append(Line(str(c.step), (c.loss, *scores, *("–" if x is None else x for x in diagnostics))))
    names = ("loss", "training", "average", "gap", "penalty", "logits", "‖z‖", "‖w‖")
    caption = "Accuracy in %, and diagnostics, at every checkpoint."
    return Table("history", "History", caption, "step", tuple(map(Column, names)), tuple(lines))


def _jsonl(store: "Store", filters: Mapping[str, Any], path: Path) -> int:
    many = 0
    with path.open("w", encoding="utf-8") as file:
        for record in store.records(**filters):
            file.write(json.dumps(finite(record), ensure_ascii=False, allow_nan=False) + "\n")
            many += 1
    return many


def _rows(store: "Store", filters: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """One row per run, and the names of all columns."""
    rows = [finite(summary._asdict() | _columns(spec)) for summary, spec in store.specs(**filters)]
    return rows, list(dict.fromkeys(name for row in rows for name in row))


def _columns(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Nested fields under dotted names; lists as JSON."""
    return {k: json.dumps(v) if isinstance(v, list) else v for k, v in flattened(plain)}


def _csv(store: "Store", filters: Mapping[str, Any], path: Path) -> int:
    import csv

    rows, names = _rows(store, filters)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows({k: spreadsheet_text(v) if isinstance(v, str) else v for k, v in row.items()} for row in rows)
    return len(rows)


def _parquet(store: "Store", filters: Mapping[str, Any], path: Path) -> int:
    from invariance.core.errors import BadValue

    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise BadValue("writing Parquet needs pyarrow: pip install pyarrow, or export .csv") from None
    rows, names = _rows(store, filters)
    parquet.write_table(pyarrow.table({name: [row.get(name) for row in rows] for name in names}), path)
    return len(rows)
