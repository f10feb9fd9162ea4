"""``invariance fit``: a model of a user's own table or images, and a report on it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from invariance.cli.options import Json, out, print_json, progress
from invariance.cli.own import Broken, needed, refuse

if TYPE_CHECKING:
    from invariance.estimators.classifier import InvariantClassifier
    from invariance.fitting.assess import Assessment
    from invariance.fitting.reader import Given

Columns = list[str] | None
Number = int | None
Lines = Sequence[tuple[str, ...]]
REPORT = "report.html"
IMAGE_SIZE, WIDTH = 64, 16


def fit(
    data: Annotated[
        Path, typer.Argument(help="A table (.csv, .tsv, .parquet, also .gz), or a folder of images domain/class/image.")
    ],
    label: Annotated[str | None, typer.Option("--label", help="Table: the column to predict.")] = None,
    environment: Annotated[
        str | None, typer.Option("--environment", help="Table: the column that says where a row is from.")
    ] = None,
    test: Annotated[Path | None, typer.Option("--test", help="Labelled data to test on, from other sites.")] = None,
    method: Annotated[str, typer.Option("--method", help="auto, or a method (see: list methods).")] = "auto",
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to save to.")] = Path("model"),
    numeric: Annotated[
        Columns, typer.Option("--numeric", help="Table: columns of numbers; words count as missing.")
    ] = None,
    categorical: Annotated[Columns, typer.Option("--categorical", help="Table: columns of names, numbers too.")] = None,
    ignore: Annotated[Columns, typer.Option("--ignore", help="Table: columns to leave out.")] = None,
    image_size: Annotated[
        Number, typer.Option("--image-size", min=8, help="Images: pixels a side to resize to.", show_default="64")
    ] = None,
    width: Annotated[
        Number, typer.Option("--width", min=1, help="Images: channels of the ResNet-18.", show_default="16")
    ] = None,
    epochs: Annotated[
        Number,
        typer.Option("--epochs", min=1, help="Images: passes over them.", show_default="200 updates, 8 at least"),
    ] = None,
    broken: Broken = None,
    licence: Annotated[str, typer.Option("--licence", help="Of the model, for its card.")] = "not stated",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Decides initial weights and order.")] = 0,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Train again without each site, and report.")
    ] = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Learn from a table or a folder of images from several sites, and say how well that works at a new one.

    Roles of columns are guessed, shown, and yours to change. Folders of images need nothing said: the first level are
    the sites, the second the classes. The output then holds the model, its card and report.html.
    """
    from invariance.core.errors import DataError
    from invariance.core.model_folder import claim

    if not data.exists():
        raise DataError(f"there is no file {data}; give a table, or a folder of images")
    claim(output, overwrite=overwrite)
    if data.is_dir():
        columns = {"numeric": numeric, "categorical": categorical, "ignore": ignore}
        refuse(f"{data} is a folder of images", label=label, environment=environment, **columns)
        given = _pictures(data, test, image_size, width, epochs, broken, seed)
    else:
        refuse(f"{data} is a table", image_size=image_size, width=width, epochs=epochs, broken=broken)
        given = _table(data, test, label, environment, seed, numeric=numeric, categorical=categorical, ignored=ignore)
    method = _possible(method, given)
    if not as_json:
        _show_data(given)
    _learn(given, method, output, licence, report=report, as_json=as_json)


def _table(
    data: Path, test: Path | None, label: str | None, environment: str | None, seed: int, **columns: Columns
) -> "Given":
    needed()
    from invariance.fitting.table import given_table
    from invariance.tabular.roles import wishes
    from invariance.tabular.source import TableSource

    source = TableSource.open(data)
    return given_table(source, label, environment, wishes(source, **columns), test=test, seed=seed)


def _pictures(
    data: Path, test: Path | None, image_size: Number, width: Number, epochs: Number, broken: Any, seed: int
) -> "Given":
    from invariance.fitting.image_folder import ImageFolderReader, given_image_folder

    reader = ImageFolderReader(image_size or IMAGE_SIZE, broken or "refuse")
    return given_image_folder(data, reader, test=test, width=width or WIDTH, epochs=epochs, seed=seed)


def _learn(given: "Given", method: str, output: Path, licence: str, *, report: bool, as_json: bool) -> None:
    """Train, save, assess, show."""
    from invariance.fitting.model import Fitted

    with progress() as bar:
        bar.add_task(f"training on {len(given.rows):,} {given.rows.unit}", total=None)
        estimator = given.estimator.set_params(method=method).fit_rows(given.rows)
        Fitted(given.reader, estimator).save(output, licence=licence, about=given.about)
        bar.add_task("leaving out one site after another", total=None)
        found = _assessed(estimator, given) if report else None
    written = _write_report(found, given, output / REPORT) if found else None
    if as_json:
        print_json(_plain(output, given, estimator, found))
    else:
        _show_model(output, estimator, found, written)


def _possible(method: str, given: "Given") -> str:
    """The method, if there is one of that name and samples of as many environments as it needs."""
    from invariance.core.errors import BadValue
    from invariance.methods import METHODS

    if method != "auto":
        METHODS[method]
    if given.environments > 1:
        return method
    if method not in ("auto", "erm"):
        where = "name the column that says where rows are from with --environment"
        where = "give a folder with several domains" if given.rows.unit == "images" else where
        raise BadValue(
            f"{method} needs {given.rows.unit} of several environments and {given.path} has one; {where}, "
            "or take --method erm"
        )
    return "erm"


def _assessed(estimator: "InvariantClassifier", given: "Given") -> "Assessment":
    from invariance.fitting.baseline import assess

    return assess(estimator, given.rows, given.test, given.columns)


def _write_report(found: "Assessment", given: "Given", path: Path) -> Path | None:
    """The page, where the packages that it needs are installed."""
    try:
        from invariance.report.export import write_page
        from invariance.report.fit_report import About, model_page
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("invariance"):
            raise
        return None
    write_page(model_page(found, About(given.title, given.label, given.roles, given.notes)), path)
    return path


def _plain(
    output: Path, given: "Given", estimator: "InvariantClassifier", found: "Assessment | None"
) -> dict[str, Any]:
    """Everything for machines."""
    from dataclasses import asdict

    from invariance.fitting.verdict import verdict

    plain: dict[str, Any] = {
        "folder": str(output),
        "label": given.label,
        "environment": given.environment,
        given.rows.unit: len(given.rows),
        "columns": {name: {"role": kind, "why": why} for name, kind, why in given.roles},
        "notes": list(given.notes),
        "method": estimator.objective_.title,
        "reason": estimator.choice_.reason if estimator.choice_ else "",
    }
    if found:
        plain["assessment"] = found.to_json()
        plain["verdict"] = asdict(verdict(found))
    return plain


def _show_data(given: "Given") -> None:
    """What every column was taken for, or how many images there are of what, and what was noticed."""
    from rich import box
    from rich.table import Table

    from invariance.report.render.formats import clean

    table = Table(
        title=f"{clean(given.title)}: {len(given.rows):,} {given.rows.unit}, {given.environments:,} environments",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    headings, lines = _columns(given) if given.roles else _counts(given)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for line in lines:
        table.add_row(*map(clean, line))
    console = out()
    console.print(table, markup=False)
    for note in given.notes:
        console.print(f"Note: {note}.", highlight=False, markup=False)


def _columns(given: "Given") -> tuple[tuple[str, ...], Lines]:
    return ("column", "taken for", "because"), given.roles


def _counts(given: "Given") -> tuple[tuple[str, ...], Lines]:
    """How many images each environment has, in all and of every class."""
    from collections import Counter

    found: dict[str, Counter[str]] = {}
    for environment, name in zip(given.rows.environments.tolist(), given.rows.y.tolist(), strict=True):
        found.setdefault(environment, Counter())[name] += 1
    lines = [
        (environment, f"{own.total():,}", ", ".join(f"{name} {own[name]:,}" for name in sorted(own)))
        for environment, own in sorted(found.items())
    ]
    return ("environment", "images", "of each class"), lines


def _show_model(
    output: Path, estimator: "InvariantClassifier", found: "Assessment | None", written: Path | None
) -> None:
    """What was trained, and what to think of it."""
    from invariance.fitting.verdict import verdict

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
