"""``invariance fit``: a model of somebody's own table, and a report on it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from invariance.cli.options import Json, out, print_json, progress
from invariance.cli.tables import needed

if TYPE_CHECKING:
    from invariance.assessment.assess import Assessment, Rows
    from invariance.estimators.classifier import InvariantClassifier
    from invariance.tables.frame import Frame, Understood

Columns = list[str] | None
REPORT = "report.html"


def fit(
    data: Annotated[Path, typer.Argument(help="Rows to learn from: .csv, .tsv or .parquet, also .gz.")],
    label: Annotated[str | None, typer.Option("--label", help="The column to predict.")] = None,
    environment: Annotated[
        str | None, typer.Option("--environment", help="The column that says where a row is from, e.g. a hospital.")
    ] = None,
    test: Annotated[Path | None, typer.Option("--test", help="Labelled rows to test on, from other sites.")] = None,
    method: Annotated[str, typer.Option("--method", help="auto, or a method (see: list methods).")] = "auto",
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to save to.")] = Path("model"),
    numeric: Annotated[Columns, typer.Option("--numeric", help="Columns of numbers; words count as missing.")] = None,
    categorical: Annotated[Columns, typer.Option("--categorical", help="Columns of names, numbers too.")] = None,
    ignore: Annotated[Columns, typer.Option("--ignore", help="Columns to leave out.")] = None,
    licence: Annotated[str, typer.Option("--licence", help="Of the model, for its card.")] = "not stated",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Decides initial weights and order.")] = 0,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Train again without each site, and report.")
    ] = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Learn from a table whose rows come from several sites, and say how well that works at a new one.

    Roles of columns are guessed, shown, and yours to change. The folder then holds the model, its card and report.html.
    """
    needed(data)
    from invariance.fitted import Fitted
    from invariance.folders import claim
    from invariance.tables.frame import read

    claim(output, overwrite=overwrite)
    known = _understood(data, label, environment, numeric=numeric, categorical=categorical, ignored=ignore)
    rows = read(known.source, known.encoder)
    tested = _test_rows(test, known)
    method = _possible(method, rows, known)
    if not as_json:
        _show_table(known, rows)
    with progress() as bar:
        bar.add_task(f"training on {len(rows.y):,} rows", total=None)
        estimator = _trained(method, seed, rows)
        Fitted(known.encoder, estimator).save(output, licence=licence, about=_about(known))
        bar.add_task("leaving out one site after another", total=None)
        found = _assessed(estimator, rows, tested, known) if report else None
    written = _write_report(found, known, rows, output / REPORT) if found else None
    if as_json:
        print_json(_plain(output, known, rows, estimator, found))
    else:
        _show_model(output, estimator, found, written)


def _understood(data: Path, label: str | None, environment: str | None, **columns: Columns) -> "Understood":
    from invariance.tables.frame import understand
    from invariance.tables.roles import wishes
    from invariance.tables.source import Source

    return understand(data, label, environment, wishes(Source.open(data), **columns))


def _test_rows(test: Path | None, known: "Understood") -> "Frame | None":
    """Read before anything is trained, so that a mistake shows at once."""
    from invariance.tables.frame import read
    from invariance.tables.source import Source

    return read(Source.open(test), known.encoder) if test else None


def _possible(method: str, rows: "Frame", known: "Understood") -> str:
    """The method, if there is one of that name and rows of as many environments as it needs."""
    from invariance.errors import BadValue
    from invariance.objectives import METHODS

    if method != "auto":
        METHODS[method]
    if len(set(rows.environments.tolist())) > 1:
        return method
    if method not in ("auto", "erm"):
        raise BadValue(
            f"{method} needs rows of several environments and {known.source.path} has one; name the column that says "
            "where rows are from with --environment, or take --method erm"
        )
    return "erm"


def _trained(method: str, seed: int, rows: "Frame") -> "InvariantClassifier":
    from invariance.estimators.classifier import InvariantClassifier

    return InvariantClassifier(method, random_state=seed).fit(rows.x, rows.y, environments=rows.environments)


def _about(known: "Understood") -> dict[str, str]:
    """What the model's card says of its table."""
    from invariance.tables.source import short

    about = {"table": known.source.path.name, "label": known.encoder.label, "environment": known.encoder.environment}
    return {name: short(value) for name, value in about.items() if value}


def _assessed(
    estimator: "InvariantClassifier", rows: "Frame", test: "Frame | None", known: "Understood"
) -> "Assessment":
    from invariance.assessment.assess import Rows
    from invariance.assessment.rival import assess

    def plain(frame: "Frame") -> "Rows":
        return Rows(frame.x, frame.y, frame.environments)

    columns = [(column.name, place) for column, place in known.encoder.places]
    return assess(estimator, plain(rows), plain(test) if test else None, columns)


def _write_report(found: "Assessment", known: "Understood", rows: "Frame", path: Path) -> Path | None:
    """The page, where the packages that it needs are installed."""
    try:
        from invariance.report.export import write_page
        from invariance.report.model import About, model_page
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("invariance"):
            raise
        return None
    roles = tuple((role.name, role.kind, role.why) for role in known.roles)
    write_page(model_page(found, About(known.source.path.name, known.encoder.label, roles, rows.notes)), path)
    return path


def _plain(
    output: Path, known: "Understood", rows: "Frame", estimator: "InvariantClassifier", found: "Assessment | None"
) -> dict[str, Any]:
    """Everything for machines."""
    from dataclasses import asdict

    from invariance.assessment.verdict import verdict

    plain: dict[str, Any] = {
        "folder": str(output),
        "label": known.encoder.label,
        "environment": known.encoder.environment,
        "rows": len(rows.y),
        "columns": {role.name: {"role": role.kind, "why": role.why} for role in known.roles},
        "notes": list(rows.notes),
        "method": estimator.objective_.title,
        "reason": estimator.choice_.reason if estimator.choice_ else "",
    }
    if found:
        plain["assessment"] = asdict(found)
        plain["verdict"] = asdict(verdict(found))
    return plain


def _show_table(known: "Understood", rows: "Frame") -> None:
    """What every column was taken for, and what was noticed."""
    from rich import box
    from rich.table import Table

    from invariance.report.formats import clean

    environments = len(set(rows.environments.tolist()))
    table = Table(
        title=f"{known.source.path.name}: {len(rows.y):,} rows, {environments:,} environments",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for heading in ("column", "taken for", "because"):
        table.add_column(heading, overflow="fold")
    for role in known.roles:
        table.add_row(clean(role.name), role.kind, clean(role.why))
    console = out()
    console.print(table, markup=False)
    notes = list(rows.notes)
    if not known.encoder.environment:
        notes.append("no column says where rows are from, so the model is ERM; name one with --environment")
    for note in notes:
        console.print(f"Note: {note}.", highlight=False, markup=False)


def _show_model(
    output: Path, estimator: "InvariantClassifier", found: "Assessment | None", written: Path | None
) -> None:
    """What was trained, and what to think of it."""
    from invariance.assessment.verdict import verdict

    console = out()
    reason = f": {estimator.choice_.reason}" if estimator.choice_ else ""
    lines = [f"Method: {estimator.objective_.title}{reason}."]
    if found:
        said = verdict(found)
        lines += ["", said.headline, *(f"- {sentence}" for sentence in said.advice), ""]
    lines.append(f"model: {output}")
    if found:
        lines.append(f"report: {written}" if written else "no report: it needs pip install 'invariance[report]'")
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=False)
