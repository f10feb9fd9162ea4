"""What ``invariance fit`` shows, writes and prints as JSON."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invariance.cli.options import out, print_notes

if TYPE_CHECKING:
    from invariance.estimators.base import Invariant
    from invariance.estimators.choice import Choice
    from invariance.fitting.assess import Assessment
    from invariance.fitting.reader import FitTask

Lines = Sequence[tuple[str, ...]]
BY_NAME = "The same model by name"
"""The beginning of a line of options to copy, which is not broken."""
MAX_COLUMNS = 40
"""In a table with more columns, neighbours of one role are shown together."""


def write_report(assessment: "Assessment", task: "FitTask", path: Path) -> Path | None:
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


def plain(output: Path, task: "FitTask", estimator: "Invariant", assessment: "Assessment | None") -> dict[str, Any]:
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
        "method": estimator.method_.title,
        "chosen": estimator.choice_ and estimator.choice_.to_json(),
        "reason": estimator.choice_.reason if estimator.choice_ else "",
    }
    if assessment:
        plain["assessment"] = assessment.to_json()
        plain["verdict"] = asdict(verdict(assessment))
    return plain


def show_data(task: "FitTask") -> None:
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
    """The role of each column; many neighbours of one role are one line."""
    if len(task.roles) <= MAX_COLUMNS:
        return ("column", "role", "why"), task.roles
    lines = []
    for kind, group in groupby(task.roles, key=lambda role: role[1]):
        first, *rest = group
        if rest:
            lines.append((f"{first[0]} … {rest[-1][0]}", kind, f"{len(rest) + 1:,} columns"))
        else:
            lines.append(first)
    return ("column", "role", "why"), lines


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


def _options(choice: "Choice", task: "FitTask") -> str:
    """Options of the command that give the chosen model."""
    from dataclasses import asdict
    from json import dumps
    from shlex import quote

    from invariance.fitting.settings import columns_of

    fields = {name: value for name, value in asdict(choice.method).items() if name in ("gamma", "l2", "without")}
    texts = {
        name: f"{value:.17g}" if isinstance(value, float) else dumps(columns_of(value, task), ensure_ascii=False)
        for name, value in fields.items()
    }
    settings = [f"--set {quote(f'method.{name}={text}')}" for name, text in texts.items()]
    hidden = ["--hidden", ",".join(map(str, choice.hidden)) or "none"] if task.roles else []
    return " ".join(["--method", choice.method_name, *settings, *hidden])


def _tested(assessment: "Assessment") -> list[str]:
    """What was reached on test data, if there are any."""
    from invariance.fitting.by_environment import mean_of, worst_of

    headline, scores = assessment.headline, assessment.model.test
    if not scores:
        return []
    worst = worst_of(scores, headline)
    among = f"; {headline.show(worst.headline)} at {worst.name}, the worst" if len(scores) > 1 else ""
    sites = f"mean over {len(scores):,} sites" if among else worst.name
    return [f"- Test data: {headline.metric.title} {headline.show(mean_of(scores))} ({sites}){among}."]


def show_model(
    output: Path, task: "FitTask", estimator: "Invariant", assessment: "Assessment | None", page: Path | None
) -> None:
    """The method, the verdict, and where files were written."""
    from invariance.core.text import clean
    from invariance.fitting.verdict import verdict

    console = out()
    choice = estimator.choice_
    lines = [f"Method: {estimator.method_.title}{f', because {choice.reason}' if choice else ''}."]
    lines += [f"Note: {estimator.note_}."] if estimator.note_ else []
    lines += [f"{BY_NAME}: {_options(choice, task)}"] if choice else []
    if assessment:
        summary = verdict(assessment)
        lines += ["", summary.headline, *(f"- {sentence}" for sentence in summary.advice), *_tested(assessment), ""]
    lines.append(f"model: {output}")
    if assessment:
        lines.append(f"report: {page}" if page else "no report: it needs pip install 'invariance[report]'")
    for line in lines:
        console.print(clean(line) if line else "", highlight=False, markup=False, soft_wrap=line.startswith(BY_NAME))
