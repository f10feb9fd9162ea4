"""Permutation importance of the columns of a user's table, as a table and a figure of the fit report."""

import math
from collections.abc import Iterable, Sequence

from invariance.core.artefacts import Artefact, Column, Curve, Figure, Line, Lines, Table
from invariance.fitting.assess import AssessedModel
from invariance.fitting.importance import PermutationImportance, largest_differences

MAX_COLUMNS, MAX_DRAWN_COLUMNS = 30, 6
"""Columns in the table, and in the figure."""


def importance_artefacts(models: Sequence[AssessedModel]) -> Iterable[Artefact]:
    """A table of all columns, and a figure of those that matter most."""
    ranked = _ranked(models)
    lines = [
        Line(pair[0].column, tuple(cell for one in pair for cell in (100 * one.changed, _range(one))))
        for pair in ranked
    ]
    columns = tuple(Column(name, m.title) for m in models for name in ("changed predictions", "drop in accuracy"))
    order = " Columns on which the models differ most come first." if len(models) > 1 else ""
    yield Table(
        "importance",
        "Permutation importance of each column",
        "A column is shuffled among the rows of a site: the share of predictions that change, in %, and the drop in "
        "accuracy, in points, from the lowest to the highest over sites. Where the drop is negative, the column "
        f"misleads.{order}",
        "column",
        columns,
        tuple(lines),
    )
    drawn = [pair for pair in ranked[:MAX_DRAWN_COLUMNS] if max(one.changed for one in pair) > 0]
    if drawn:
        yield _importance_figure(models, drawn)


def _importance_figure(models: Sequence[AssessedModel], drawn: Sequence[tuple[PermutationImportance, ...]]) -> Figure:
    places = tuple(drawn[0][0].drop_by_environment)
    drops = [100 * one.drop_by_environment[place] for pair in drawn for one in pair for place in places]
    span = (5 * math.floor(min(*drops, 0.0) / 5), 5 * math.ceil(max(*drops, 0.0) / 5))
    panels = []
    for i, m in enumerate(models):
        curves = tuple(
            Curve(
                pair[i].column,
                tuple(map(float, range(len(places)))),
                tuple(100 * pair[i].drop_by_environment[place] for place in places),
            )
            for pair in drawn
        )
        panels.append(Lines(m.title, "site", "drop in accuracy, points", curves, span=span, places=places))
    about = "The drop in accuracy at each site when a column is shuffled there. Below zero, the column misleads."
    return Figure("importance-by-site", "Permutation importance by site", about, tuple(panels))


def _ranked(models: Sequence[AssessedModel]) -> Sequence[tuple[PermutationImportance, ...]]:
    """The importance of every column to each model, the largest difference between the two, or the largest, first."""
    if len(models) == 2:
        return largest_differences(models[0].importances, models[1].importances, MAX_COLUMNS)
    return [(one,) for one in sorted(models[0].importances, key=lambda one: -one.changed)][:MAX_COLUMNS]


def _range(importance: PermutationImportance) -> str:
    drops = [100 * drop for drop in importance.drop_by_environment.values()]
    return f"{min(drops):.1f} to {max(drops):.1f}".replace("-", "−")
