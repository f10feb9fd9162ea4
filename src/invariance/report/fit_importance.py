"""Permutation importance of the columns of a user's table, as a table and a figure of the fit report."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from invariance.core.artefacts import Artefact, Column, Curve, Figure, Line, Lines, Table
from invariance.fitting.assess import AssessedModel, Assessment
from invariance.fitting.importance import PermutationImportance, largest_differences
from invariance.report.fit_sites import ALL_OF_THEM

MAX_COLUMNS, MAX_DRAWN_COLUMNS = 30, 6
"""Columns in the table, and in the figure."""


def importance_artefacts(assessment: Assessment) -> Iterable[Artefact]:
    """A table of all columns, and a figure of those that matter most."""
    models = assessment.both
    ranked = _ranked(models)
    lines = [
        Line(pair[0].column, tuple(cell for one in pair for cell in (f"{100 * one.changed:.1f}", _range(one))))
        for pair in ranked
    ]
    columns = tuple(Column(name, m.title) for m in models for name in ("changed predictions", "drop in accuracy"))
    yield Table(
        "importance",
        "Permutation importance of each column",
        "A column is shuffled among the rows of a site: the share of predictions that change, in %, and the drop in "
        "accuracy, in points, from the lowest to the highest over sites. Where the drop is negative, the column "
        f"misleads. Columns {_first(models)} come first.",
        "column",
        columns,
        tuple(lines),
        notes=_selection(assessment, len(ranked), _first(models)),
    )
    drawn = [pair for pair in ranked[:MAX_DRAWN_COLUMNS] if max(one.changed for one in pair) > 0]
    if drawn:
        notes = _selection(assessment, len(drawn), f"{_first(models)} and that change a prediction")
        yield replace(_importance_figure(models, drawn), notes=notes)
        yield replace(_by_site(models, drawn), notes=notes)


def _selection(assessment: Assessment, columns: int, which: str) -> tuple[str, ...]:
    """Notes on which sites and columns are shown, if these are not all."""
    importances = assessment.model.importances
    sites, notes = len(importances[0].drop_by_environment), []
    if sites < assessment.environments:
        most = f"those with the most {assessment.unit}"
        notes.append(f"Measured at {sites} of {assessment.environments:,} sites, {most}.")
    if columns < len(importances):
        notes.append(f"Shown are {columns} of {len(importances):,} columns, those {which}. {ALL_OF_THEM}")
    return tuple(notes)


def _first(models: Sequence[AssessedModel]) -> str:
    """What puts a column before others."""
    return "on which the models differ most" if len(models) > 1 else "that change the most predictions"


def _importance_figure(models: Sequence[AssessedModel], drawn: Sequence[tuple[PermutationImportance, ...]]) -> Figure:
    places = tuple(drawn[0][0].drop_by_environment)
    ends = [end for pair in drawn for one in pair for place in places for end in _interval(one, place)]
    span = (5 * math.floor(min(*ends, 0.0) / 5), 5 * math.ceil(max(*ends, 0.0) / 5))
    panels = [
        Lines(
            m.title,
            "site",
            "drop in accuracy, points",
            tuple(_curve(pair[i], places) for pair in drawn),
            span=span,
            places=places,
        )
        for i, m in enumerate(models)
    ]
    about = (
        "The drop in accuracy at each site when a column is shuffled there, with its 95 % interval over rows. Below "
        "zero, the column misleads."
    )
    return Figure("importance-by-site", "Permutation importance by site", about, tuple(panels))


def _curve(importance: PermutationImportance, places: Sequence[str]) -> Curve:
    intervals = [_interval(importance, place) for place in places]
    return Curve(
        importance.column,
        tuple(map(float, range(len(places)))),
        tuple(100 * importance.drop_by_environment[place] for place in places),
        tuple(low for low, _ in intervals),
        tuple(high for _, high in intervals),
    )


def _by_site(models: Sequence[AssessedModel], drawn: Sequence[tuple[PermutationImportance, ...]]) -> Table:
    places = tuple(drawn[0][0].drop_by_environment)
    lines = [
        Line(
            f"{one.column}, {m.title}" if len(models) > 1 else one.column, tuple(_drop(one, place) for place in places)
        )
        for pair in drawn
        for m, one in zip(models, pair, strict=True)
    ]
    about = "The same in numbers: the drop in accuracy at each site, in points, and its 95 % interval over rows."
    return Table(
        "importance-intervals",
        "Permutation importance by site, with intervals",
        about,
        "column",
        tuple(Column(place) for place in places),
        tuple(lines),
    )


def _interval(importance: PermutationImportance, place: str) -> tuple[float, float]:
    """In points; where none is known, the drop itself."""
    drop = importance.drop_by_environment[place]
    low, high = importance.interval_by_environment.get(place, (drop, drop))
    return 100 * low, 100 * high


def _drop(importance: PermutationImportance, place: str) -> str:
    low, high = _interval(importance, place)
    return f"{100 * importance.drop_by_environment[place]:.1f} ({low:.1f} to {high:.1f})".replace("-", "−")


def _ranked(models: Sequence[AssessedModel]) -> Sequence[tuple[PermutationImportance, ...]]:
    """The importance of every column to each model, the largest difference between the two, or the largest, first."""
    if len(models) == 2:
        return largest_differences(models[0].importances, models[1].importances, MAX_COLUMNS)
    return [(one,) for one in sorted(models[0].importances, key=lambda one: -one.changed)][:MAX_COLUMNS]


def _range(importance: PermutationImportance) -> str:
    drops = [100 * drop for drop in importance.drop_by_environment.values()]
    return f"{min(drops):.1f} to {max(drops):.1f}".replace("-", "−")
