"""``invariance fit``: a model of a user's own table or images, and a report on it."""

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from invariance.cli.fit_output import plain, show_data, show_model, write_report
from invariance.cli.options import Device, Json, print_json, progress, stages
from invariance.cli.user_data import Broken, refuse_options

if TYPE_CHECKING:
    from invariance.fitting.reader import FitTask

Columns = list[str] | None
Number = int | None
MAX_ASSESSED_ROWS = 200_000
"""Rows of a table that stays in a file that the report is based on, drawn at random."""
IMAGE_SIZE, WEIGHTS_IMAGE_SIZE = 64, 112
"""Pixels per side; with published weights, which know larger images."""


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
    metric: Annotated[
        str,
        typer.Option(
            "--metric",
            help="What auto chooses by and the report is about: accuracy, log-loss, auc, average-precision, rmse; in "
            "the worst case, or on average with mean- before it.",
            show_default="log-loss or rmse",
        ),
    ] = "auto",
    positive: Annotated[
        str | None, typer.Option("--positive", help="Two classes: the positive one.", show_default="the second by name")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold", min=0, max=1, help="Two classes: the probability from which a row is positive in the report."
        ),
    ] = None,
    cost: Annotated[
        float | None,
        typer.Option("--cost", min=0, help="The same, by cost: how many false alarms cost as much as one missed case."),
    ] = None,
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
    date: Annotated[Columns, typer.Option("--date", help="Table: columns to read as dates or times.")] = None,
    text: Annotated[
        Columns, typer.Option("--text", help="Table: columns to read as free text (hashed word counts).")
    ] = None,
    id_: Annotated[Columns, typer.Option("--id", help="Table: columns that identify rows; they are not used.")] = None,
    ignore: Annotated[Columns, typer.Option("--ignore", help="Table: columns to leave out.")] = None,
    hidden: Annotated[
        str | None,
        typer.Option("--hidden", help="Table: widths of hidden layers, e.g. 32,32, or none. auto tries both."),
    ] = None,
    class_weight: Annotated[
        Literal["balanced"] | None,
        typer.Option("--class-weight", help="balanced: rows of rare classes count more, all classes the same."),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="SECTION.FIELD=VALUE",
            help="Change a field of method or recipe, e.g. method.gamma=10 or recipe.epochs=20. May be repeated.",
        ),
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(
            "--memory",
            min=0,
            help="Table: GB of memory for its rows; those of a larger table stay in a file.",
            show_default="half of the machine's",
        ),
    ] = None,
    image_size: Annotated[
        Number,
        typer.Option(
            "--image-size",
            min=8,
            max=1024,
            help="Images: pixels per side to resize to.",
            show_default="64, or 112 with --weights",
        ),
    ] = None,
    width: Annotated[
        Number,
        typer.Option(
            "--width", min=1, max=256, help="Images: first channels of a ResNet-18 that is trained.", show_default="16"
        ),
    ] = None,
    epochs: Annotated[
        Number,
        typer.Option(
            "--epochs",
            min=1,
            help="Images: passes over the data of a ResNet-18 that is trained.",
            show_default="at least 8, and 200 updates",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            help="Images: a file with published weights of a ResNet-18 (.safetensors, .pth), whose features are used "
            "as they are.",
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
    """Fit a model to a table or images from several environments, and estimate how good it is in a new one.

    An environment is where or when data were recorded: a hospital, a camera, a year. For a table, the roles of columns
    are guessed and shown, and options change them; a label of classes makes a classifier, one of numbers a regression.
    In a folder of images, the first level of folders are the environments and the second the classes. The output
    folder holds the model, its card and report.html.
    """
    from invariance.core.errors import BadValue, DataError
    from invariance.core.model_folder import claim
    from invariance.fitting.settings import decision_threshold, positive_class, weighted

    if not data.exists():
        raise DataError(f"there is no file {data}; give a table, or a folder of images")
    if test and not report:
        raise BadValue("--test is shown in the report, and --no-report leaves that out; leave out one of the two")
    claim(output, overwrite=overwrite)
    columns = {"numeric": numeric, "categorical": categorical, "date": date, "text": text, "id": id_}
    with progress() as bar:
        bar.add_task(f"reading {data.name}", total=None)
        if data.is_dir():
            refuse_options(f"{data} is a folder of images", label=label, environment=environment, **columns)
            refuse_options(f"{data} is a folder of images", ignore=ignore, hidden=hidden, memory=memory)
            task = _image_folder(data, test, image_size, width, epochs, weights, broken, seed)
        else:
            refuse_options(f"{data} is a table", image_size=image_size, width=width, epochs=epochs, weights=weights)
            refuse_options(f"{data} is a table", broken=broken)
            task = _table(data, test, label, environment, seed, memory, **columns, ignored=ignore)
        task = weighted(task, class_weight)
        _configure(task, method, metric, hidden, changes, device)
        task.estimator.set_params(positive=positive_class(task, positive))
        threshold = decision_threshold(task, threshold, cost)
    if not as_json:
        show_data(task)
    _fit(task, output, licence, threshold, report=report, as_json=as_json)


def _table(
    data: Path,
    test: Path | None,
    label: str | None,
    environment: str | None,
    seed: int,
    memory: float | None,
    **columns: Columns,
) -> "FitTask":
    from invariance.fitting.table import table_task
    from invariance.tabular.roles import stated_roles
    from invariance.tabular.source import TableSource

    source = TableSource.open(data)
    limit = None if memory is None else round(1e9 * memory)
    return table_task(source, label, environment, stated_roles(source, **columns), test=test, seed=seed, memory=limit)


def _image_folder(
    data: Path,
    test: Path | None,
    image_size: Number,
    width: Number,
    epochs: Number,
    weights: Path | None,
    broken: Any,
    seed: int,
) -> "FitTask":
    from invariance.fitting.image_folder import ImageFolderReader, image_folder_task

    if weights:
        refuse_options("features with --weights are not trained", width=width, epochs=epochs)
    reader = ImageFolderReader(image_size or (WEIGHTS_IMAGE_SIZE if weights else IMAGE_SIZE), broken or "refuse")
    return image_folder_task(data, reader, test=test, width=width, epochs=epochs, weights=weights, seed=seed)


def _configure(
    task: "FitTask", method: str, metric: str, hidden: str | None, settings: list[str] | None, device: str
) -> None:
    """Set the estimator's method, metric, hidden layers and recipe as the options say."""
    from invariance.core.device import resolved
    from invariance.core.errors import BadValue
    from invariance.evaluation.metrics import criterion
    from invariance.experiments.spec import parse_changes
    from invariance.fitting.settings import changed_method, changed_recipe, widths

    method = _checked_method(method, task)
    resolved(device)
    criterion(metric, classes=hasattr(task.estimator, "predict_proba"))
    changes = parse_changes(settings or [])
    if others := changes.keys() - {"method", "recipe"}:
        raise BadValue(f"--set {min(others)}.… does not apply to data of your own; change method or recipe")
    fields = changes.get("method", {})
    if fields and method == "auto":
        raise BadValue("--set method.… needs a method; name one with --method")
    task.estimator.set_params(
        method=changed_method(method, fields, task) if fields else method,
        metric=metric,
        recipe=changed_recipe(task.estimator.recipe, changes.get("recipe", {})),
        hidden=widths(hidden),
        device=device,
    )


def _fit(task: "FitTask", output: Path, licence: str, threshold: float, *, report: bool, as_json: bool) -> None:
    """Train, save, assess, show."""
    from sklearn.exceptions import ConvergenceWarning

    from invariance.core.model_folder import REPORT
    from invariance.fitting.baseline import assess
    from invariance.fitting.model import Fitted
    from invariance.fitting.summary import summary

    with stages(1 + report) as stage, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the model's note says it
        stage(f"training on {len(task.rows):,} {task.rows.unit}")
        estimator = task.estimator.fit_rows(task.rows)
        sample = task.rows.sample(MAX_ASSESSED_ROWS)
        fitted = Fitted.of(task, estimator, sample)
        fitted.save(output, licence=licence, about=task.about)
        if report:
            stage("leaving out one environment after another")
        try:
            assessment = assess(estimator, sample, task.test, task.reader.columns, threshold) if report else None
        except KeyboardInterrupt:
            print(f"the model is saved in {output}, without its report; --overwrite makes both again", file=sys.stderr)
            raise
        if assessment:
            fitted.save(output, licence=licence, about=task.about, assessment=summary(assessment))
    page = write_report(assessment, task, output / REPORT) if assessment else None
    if as_json:
        print_json(plain(output, task, estimator, assessment))
    else:
        show_model(output, task, estimator, assessment, page)


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
