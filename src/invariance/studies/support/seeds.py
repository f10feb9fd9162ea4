"""Every seed behind a study, one by one."""

from typing import NamedTuple

from invariance.core.artefacts import Cell, Column, Line, Table
from invariance.studies.support.base import METRICS, Results
from invariance.training.selection import label


class SeedRow(NamedTuple):
    """A run of a study at the checkpoint that a rule took. Scores are in %, and missing where it took none.

    ``status`` is that of the checkpoint, ``run_ended`` that of the end of training.
    """

    method: str
    data: str
    setting: str
    recipe: str
    scale: str
    selection: str
    seed: int
    status: str
    step: int | None
    average: float | None
    worst: float | None
    gap: float | None
    run_ended: str
    seconds: float
    key: str


def seed_rows(results: Results) -> list[SeedRow]:
    """One row per arm and seed, whether it is averaged or not."""
    rows = []
    for arm in results.arms:
        if not (row := results.row(arm)):
            continue
        for run, outcome in zip(row.runs, row.outcomes, strict=True):
            taken = outcome.checkpoint
            scores = [100 * getattr(taken.test, metric) if taken else None for metric in METRICS.values()]
            rows.append(
                SeedRow(
                    *(arm.method, arm.data, arm.setting, run.spec.recipe_name, results.scale, label(results.selection)),
                    *(run.spec.seed, outcome.status, taken.step if taken else None, *scores),
                    *(run.status, run.seconds, row.keys.get(run.spec.seed, "")),
                )
            )
    return rows


def seed_table(results: Results) -> Table:
    """The rows as a table."""
    study = results.plan.study
    names = SeedRow._fields[1:]
    lines = tuple(Line(row.method, tuple(map(_cell, row[1:]))) for row in seed_rows(results))
    caption = (
        "One line per run, at the checkpoint that the rule took: scores over the test environments in %. 'Status' is "
        "that of the checkpoint, 'run_ended' that of the end of training."
    )
    columns = tuple(map(Column, names))
    title = f"{study.title}: every seed"
    return Table(
        f"{study.name}-seeds",
        title,
        caption,
        "method",
        columns,
        lines,
        results.provenance,
        number=study.number,
        listing=True,
    )


def _cell(value: str | float | None) -> Cell:
    return "" if value is None else value
