"""``invariance fit``: a model of a user's own table or images, and a report on it."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from invariance.cli.options import Device, Json, out, print_json, print_notes, progress
from invariance.cli.user_data import Broken, refuse_options, require_pyarrow

if TYPE_CHECKING:
    from invariance.estimators.classifier import InvariantClassifier
    from invariance.fitting.assess import Assessment
    from invariance.fitting.reader import FitTask

Columns = list[str] | None
Number = int | None
Lines = Sequence[tuple[str, ...]]
IMAGE_SIZE, WIDTH = 64, 16
"""Pixels per side, and channels of the first layer."""


def fit(
    data: Annotated[
        Path, typer.Argument(help="A table (.csv, .tsv, .parquet, also .gz), or a folder of images domain/class/image.")
    ],
    label: Annotated[str | None, typer.Option("--label", help="Table: the column to predict.")] = None,
    environment: Annotated[
        str | None,
        typer.Option("--environment", help="Table: the column that names the environment of each row: a site, a year."),
    ] = None,
    test: Annotated[
        Path | None, typer.Option("--test", help="Labelled data to test on, from other environments.")
    ] = None,
    method: Annotated[
        str, typer.Option("--method", help="A method (see: list methods), or auto to choose one.")
    ] = "auto",
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to save to.")] = Path("model"),
    numeric: Annotated[
        Columns,
        typer.Option(
            "--numeric", help="Table: columns to read as numbers; words count as missing. Repeat, or join by commas."
        ),
    ] = None,
    categorical: Annotated[
        Columns, typer.Option("--categorical", help="Table: columns to read as categories, even if they hold numbers.")
    ] = None,
    ignore: Annotated[Columns, typer.Option("--ignore", help="Table: columns to leave out.")] = None,
    image_size: Annotated[
        Number,
        typer.Option("--image-size", min=8, max=1024, help="Images: pixels per side to resize to.", show_default="64"),
    ] = None,
    width: Annotated[
        Number,
        typer.Option(
            "--width", min=1, max=1024, help="Images: channels of the ResNet-18's first layer.", show_default="16"
        ),
    ] = None,
    epochs: Annotated[
        Number,
        typer.Option(
            "--epochs", min=1, help="Images: passes over the data.", show_default="at least 8, and 200 updates"
        ),
    ] = None,
    broken: Broken = None,
    licence: Annotated[str, typer.Option("--licence", help="The model's licence, for its card.")] = "not stated",
    seed: Annotated[int, typer.Option("--seed", min=0, help="The random seed: initial weights, order of rows.")] = 0,
    device: Device = "cpu",
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Also train with environments left out, and write report.html.")
    ] = True,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a model that is already in the folder.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Fit a classifier to a table or images from several environments, and estimate its accuracy in a new one.

    An environment is where or when data were recorded: a hospital, a camera, a year. For a table, the roles of columns
    are guessed and shown, and options change them. In a folder of images, the first level of folders are the
    environments and the second the classes. The output folder holds the model, its card and report.html.
    """
    from invariance.core.errors import DataError
    from invariance.core.model_folder import claim

    if not data.exists():
        raise DataError(f"there is no file {data}; give a table, or a folder of images")
    claim(output, overwrite=overwrite)
    if data.is_dir():
        columns = {"numeric": numeric, "categorical": categorical, "ignore": ignore}
        refuse_options(f"{data} is a folder of images", label=label, environment=environment, **columns)
        task = _image_folder(data, test, image_size, width, epochs, broken, seed)
    else:
        refuse_options(f"{data} is a table", image_size=image_size, width=width, epochs=epochs, broken=broken)
        task = _table(data, test, label, environment, seed, numeric=numeric, categorical=categorical, ignored=ignore)
    task.estimator.set_params(method=_checked_method(method, task), device=device)
    if not as_json:
        _show_data(task)
    _fit(task, output, licence, report=report, as_json=as_json)


def _table(
    data: Path, test: Path | None, label: str | None, environment: str | None, seed: int, **columns: Columns
) -> "FitTask":
    require_pyarrow()
    from invariance.fitting.table import table_task
    from invariance.tabular.roles import stated_roles
    from invariance.tabular.source import TableSource

    source = TableSource.open(data)
    return table_task(source, label, environment, stated_roles(source, **columns), test=test, seed=seed)


def _image_folder(
    data: Path, test: Path | None, image_size: Number, width: Number, epochs: Number, broken: Any, seed: int
) -> "FitTask":
    from invariance.fitting.image_folder import ImageFolderReader, image_folder_task

    reader = ImageFolderReader(image_size or IMAGE_SIZE, broken or "refuse")
    return image_folder_task(data, reader, test=test, width=width or WIDTH, epochs=epochs, seed=seed)


def _fit(task: "FitTask", output: Path, licence: str, *, report: bool, as_json: bool) -> None:
    """Train, save, assess, show."""
    from sklearn.exceptions import ConvergenceWarning

    from invariance.core.model_folder import REPORT
    from invariance.fitting.model import Fitted

    with progress() as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the model's note says it
        bar.add_task(f"training on {len(task.rows):,} {task.rows.unit}", total=None)
        estimator = task.estimator.fit_rows(task.rows)
        Fitted(task.reader, estimator).save(output, licence=licence, about=task.about)
        bar.add_task("leaving out one environment after another", total=None)
        assessment = _assess(estimator, task) if report else None
    page = _write_report(assessment, task, output / REPORT) if assessment else None
    if as_json:
        print_json(_plain(output, task, estimator, assessment))
    else:
        _show_model(output, estimator, assessment, page)


def _checked_method(method: str, task: "FitTask") -> str:
    """The method, if there is one of that name and samples of as many environments as it needs."""
    from invariance.core.errors import BadValue
    from invariance.methods import METHODS

    if method != "auto":
        METHODS[method]
    if task.environments > 1:
        return method
    if method not in ("auto", "erm"):
        remedy = "name the column of environments with --environment"
        remedy = "give a folder with several domains" if task.rows.unit == "images" else remedy
        raise BadValue(
            f"{method} needs {task.rows.unit} of several environments and {task.path} has one; {remedy}, "
            "or use --method erm"
        )
    return "erm"


def _assess(estimator: "InvariantClassifier", task: "FitTask") -> "Assessment":
    from invariance.fitting.baseline import assess

    return assess(estimator, task.rows, task.test, task.columns)


def _write_report(assessment: "Assessment", task: "FitTask", path: Path) -> Path | None:
    """The page, where the packages that it needs are installed."""
    try:
        from invariance.report.export import write_page
        from invariance.report.fit_report import About, model_page
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("invariance"):
            raise
        return None
    write_page(model_page(assessment, About(task.title, task.label, task.roles, task.notes)), path)
    return path


def _plain(
    output: Path, task: "FitTask", estimator: "InvariantClassifier", assessment: "Assessment | None"
) -> dict[str, Any]:
    """Everything as plain data, for ``--json``."""
    from dataclasses import asdict

    from invariance.fitting.verdict import verdict

    plain: dict[str, Any] = {
        "folder": str(output),
        "label": task.label,
        "environment": task.environment,
        task.rows.unit: len(task.rows),
        "columns": {name: {"role": kind, "why": why} for name, kind, why in task.roles},
        "notes": [*task.notes, *filter(None, [estimator.note_])],
        "method": estimator.objective_.title,
        "reason": estimator.choice_.reason if estimator.choice_ else "",
    }
    if assessment:
        plain["assessment"] = assessment.to_json()
        plain["verdict"] = asdict(verdict(assessment))
    return plain


def _show_data(task: "FitTask") -> None:
    """The role of every column, or the number of images of every class, and notes."""
    from rich import box
    from rich.table import Table

    from invariance.core.text import clean

    noun = "environment" if task.environments == 1 else "environments"
    table = Table(
        title=f"{clean(task.title)}: {len(task.rows):,} {task.rows.unit}, {task.environments:,} {noun}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    headings, lines = _columns(task) if task.roles else _counts(task)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for line in lines:
        table.add_row(*map(clean, line))
    console = out()
    console.print(table, markup=False)
    print_notes(task.notes, console)


def _columns(task: "FitTask") -> tuple[tuple[str, ...], Lines]:
    return ("column", "role", "why"), task.roles


def _counts(task: "FitTask") -> tuple[tuple[str, ...], Lines]:
    """The number of images in each environment, in all and of every class."""
    from collections import Counter

    images: dict[str, Counter[str]] = {}
    for environment, name in zip(task.rows.environments.tolist(), task.rows.y.tolist(), strict=True):
        images.setdefault(environment, Counter())[name] += 1
    lines = [
        (environment, f"{classes.total():,}", ", ".join(f"{name} {classes[name]:,}" for name in sorted(classes)))
        for environment, classes in sorted(images.items())
    ]
    return ("environment", "images", "by class"), lines


def _show_model(
    output: Path, estimator: "InvariantClassifier", assessment: "Assessment | None", page: Path | None
) -> None:
    """The method, the verdict, and where files were written."""
    from invariance.core.text import clean
    from invariance.fitting.verdict import verdict

    console = out()
    reason = f", because {estimator.choice_.reason}" if estimator.choice_ else ""
    lines = [f"Method: {estimator.objective_.title}{reason}.", *(f"Note: {n}." for n in [estimator.note_] if n)]
    if assessment:
        summary = verdict(assessment)
        lines += ["", summary.headline, *(f"- {sentence}" for sentence in summary.advice), ""]
    lines.append(f"model: {output}")
    if assessment:
        lines.append(f"report: {page}" if page else "no report: it needs pip install 'invariance[report]'")
    for line in lines:
        console.print(clean(line) if line else "", highlight=False, markup=False, soft_wrap=False)
