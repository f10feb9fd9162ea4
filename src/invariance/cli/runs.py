"""``invariance runs``: what is in the store."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from invariance.cli.follow import STORE, StorePath, span
from invariance.cli.options import Json, out, print_json, writable
from invariance.core.atomic import atomic_write

if TYPE_CHECKING:
    from invariance.experiments.store import Store, Summary

app = typer.Typer(no_args_is_help=True, help="Finished runs: list, show, export, remove.")

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
    as_json: Json = False,
) -> None:
    """The newest runs, one a line."""
    with _open(store) as kept:
        found = kept.summaries(**_filters(data, method, recipe, status, seed))
    if as_json:
        print_json([summary._asdict() for summary in found])
        return
    _table(found[-limit:])
    newest = f", the newest {limit} shown (--limit 0 shows all)" if 0 < limit < len(found) else ""
    out().print(f"{len(found)} runs in {store}{newest}", highlight=False)


@app.command()
def show(
    key: Annotated[str, typer.Argument(help="The run's key, or enough of its beginning.")],
    store: StorePath = STORE,
    as_json: Json = False,
) -> None:
    """One run: what decided it, how it went, what it reached."""
    from rich.text import Text

    from invariance.cli.evaluate import show as show_scores

    with _open(store) as kept:
        key = kept.find(key)
        run = kept.get(key)
        (record,) = kept.records(key=key)
    assert run  # noqa: S101 - it was just found
    if as_json:
        print_json(record)
        return
    console = out()
    if run.history:
        show_scores(run, run.history[-1].test)
        _history(run.history)
    console.print(Text(f"{run.status}{f': {run.reason}' if run.reason else ''}, {span(run.seconds)}"))
    facts = dict(_flat(record["spec"])) | dict(_flat({"versions": record["versions"], "machine": record["machine"]}))
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
) -> None:
    """Write runs to a file, for other programs."""
    writable(file, ".csv", ".parquet", ".jsonl")
    filters = _filters(data, method, recipe, status, seed)
    write = {".csv": _csv, ".parquet": _parquet, ".jsonl": _jsonl}[file.suffix]
    with atomic_write(file) as part, _open(store) as kept:
        many = write(kept, filters, part)
    out().print(f"{many} runs: {file}", highlight=False)


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
) -> None:
    """Delete runs by key, or all that a filter finds."""
    from invariance.core.errors import BadValue

    filters = _filters(data, method, recipe, status, seed)
    if bool(keys) == any(value is not None for value in filters.values()):
        raise BadValue("say which runs to remove: by key, or by a filter such as --status failed, not both")
    with _open(store) as kept:
        doomed = [kept.find(key) for key in keys] if keys else [s.key for s in kept.summaries(**filters)]
        if doomed and not yes:
            typer.confirm(f"Remove {len(doomed)} runs from {store}?", abort=True)
        many = kept.remove(doomed)
    out().print(f"removed {many} run{'' if many == 1 else 's'} from {store}", highlight=False)


def _open(store: Path) -> "Store":
    from invariance.experiments.store import Store

    return Store(store, must_exist=True)


def _filters(
    data: str | None, method: str | None, recipe: str | None, status: str | None, seed: int | None
) -> dict[str, Any]:
    from invariance.core.errors import UnknownName

    if status is not None and status not in STATUSES:
        raise UnknownName.of("status", status, STATUSES)
    return {"data": data, "method": method, "recipe": recipe, "status": status, "seed": seed}


def _table(found: "list[Summary]") -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    numbers = ("seed", "average", "gap", "time")
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    for heading in ("key", "data", "method", "recipe", *numbers, "status"):
        table.add_column(heading, justify="right" if heading in numbers else "left", overflow="fold")
    for s in found:
        scores = ("–" if value is None else f"{100 * value:.1f}" for value in (s.average, s.gap))
        what = s.method if s.hold_out is None else f"{s.method} without {s.hold_out}"
        cells = (s.key[:8], s.data, what, s.recipe, str(s.seed), *scores, span(s.seconds), s.status)
        table.add_row(*(Text(cell) for cell in cells))
    out().print(table)


def _history(history: Iterable[Any]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("step", "loss", "training", "average", "gap", "penalty", "logits", "‖z‖", "‖w‖"):
        table.add_column(heading, justify="right")
    for c in history:
        v = c.diagnostics
        diagnostics = (v.penalty, v.logit_scale, v.feature_norm, v.head_norm) if v else (None,) * 4
        scores = (f"{100 * value:.1f}" for value in (c.train.mean, c.test.mean, c.test.gap))
        table.add_row(str(c.step), f"{c.loss:.3g}", *scores, *("–" if x is None else f"{x:.3g}" for x in diagnostics))
    out().print(table)


def _flat(plain: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Nested fields under dotted names; lists as JSON."""
    for name, value in plain.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", json.dumps(value) if isinstance(value, list) else value


def _jsonl(store: "Store", filters: Mapping[str, Any], path: Path) -> int:
    many = 0
    with path.open("w", encoding="utf-8") as file:
        for record in store.records(**filters):
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            many += 1
    return many


def _rows(store: "Store", filters: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """One row a run, and the names of all columns."""
    rows = [summary._asdict() | dict(_flat(spec)) for summary, spec in store.specs(**filters)]
    return rows, list(dict.fromkeys(name for row in rows for name in row))


def _csv(store: "Store", filters: Mapping[str, Any], path: Path) -> int:
    import csv

    rows, names = _rows(store, filters)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    return len(rows)


def _parquet(store: "Store", filters: Mapping[str, Any], path: Path) -> int:
    from invariance.core.errors import BadValue

    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise BadValue("writing Parquet needs pyarrow: pip install 'invariance[tables]', or export .csv") from None
    rows, names = _rows(store, filters)
    parquet.write_table(pyarrow.table({name: [row.get(name) for row in rows] for name in names}), path)
    return len(rows)
