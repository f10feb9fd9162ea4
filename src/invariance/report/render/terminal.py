"""Artefacts in a terminal of a hundred columns: one small table for each group, curves as bars."""

import math
from collections.abc import Iterator, Sequence
from statistics import fmean

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as Drawn
from rich.text import Text

from invariance.core.artefacts import Artefact, Curve, Lines, Table
from invariance.core.text import clean
from invariance.report.render.formats import plain
from invariance.report.render.sheets import Entry, Sheet, sheets
from invariance.report.render.sparkline import sparkline

NARROW = 4
"""Columns with printed numbers, or twice as many without, that still fit beside each other."""
MANY = 8
"""Columns that leave no room for space between them."""
BARS = 32


def show(artefact: Artefact) -> RenderableType:
    """Title, tables and notes, ready to print."""
    parts: list[RenderableType] = [Text(clean(artefact.title), "bold")]
    parts += [Text(clean(artefact.caption), "dim")] if artefact.caption else []
    if isinstance(artefact, Table):
        (sheet,) = sheets(artefact)
        parts += map(_drawn, _parts(sheet))
        parts += [Text(f"{mark} {note}", "yellow") for mark, note in sheet.footnotes]
    else:
        panels = zip(artefact.panels, sheets(artefact), strict=True)
        parts += [_curves(panel) if isinstance(panel, Lines) else _drawn(sheet) for panel, sheet in panels]
    parts += [Text(clean(note)) for note in artefact.notes]
    parts += [Text(clean(artefact.provenance), "dim")] if artefact.provenance else []
    return Group(*parts)


def _parts(sheet: Sheet) -> Iterator[Sheet]:
    weight = sum(2 if sheet.compares(i) else 1 for i in range(len(sheet.columns)))
    if weight > 2 * NARROW and len(sheet.groups) > 1:
        yield from sheet.split()
    else:
        yield sheet


def _drawn(sheet: Sheet) -> Drawn:
    table = _empty(sheet.title, tight=len(sheet.columns) >= MANY)
    table.add_column(Text(sheet.heading), no_wrap=True)
    cells = [[Text(row.label) for row in sheet.rows]]
    for index, column in enumerate(sheet.columns):
        name = " · ".join(filter(None, (column.group, column.name)))
        entries = [row.entries[index] for row in sheet.rows]
        if sheet.numeric(index):
            head, *numbers = _aligned(name, entries)
            table.add_column(head, no_wrap=True)
            cells.append(numbers)
        else:
            table.add_column(Text(name), overflow="fold")
            cells.append([Text(entry.text) for entry in entries])
        if sheet.compares(index):
            table.add_column("printed", justify="right", style="dim", no_wrap=True)
            table.add_column("Δ", justify="right", style="dim", no_wrap=True)
            cells.append([Text(entry.printed.partition(" ")[0]) for entry in entries])
            cells.append([Text(entry.difference) for entry in entries])
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return table


def _aligned(name: str, column: Sequence[Entry]) -> list[Text]:
    """A heading and its numbers, aligned to the right: mean, deviation and the mark of a footnote each by itself."""
    parts = [entry.text.partition(" ± ") for entry in column]
    width = max(len(deviation) for _, _, deviation in parts)
    room = " " * (width + len(" ±")) if width else ""
    texts = [mean + (f" ±{deviation:>{width}}" if deviates else room) for mean, deviates, deviation in parts]
    marks = max(len(entry.mark) for entry in column)
    notes = [f" {entry.mark:{marks}}" if marks else "" for entry in column]
    across = max(len(name) - len(notes[0]), *map(len, texts))
    numbers = [Text(f"{text:>{across}}").append(note, "yellow") for text, note in zip(texts, notes, strict=True)]
    return [Text(f"{name:>{across}}"), *numbers]


def _curves(panel: Lines) -> Drawn:
    """One line per curve: its shape, where it begins and ends, its mean."""
    table = _empty(panel.title)
    table.add_column(Text(clean(panel.y_label)), no_wrap=True)
    places = [x for curve in panel.curves for x in curve.x]
    ends = (
        (panel.places[0], panel.places[-1])
        if panel.places
        else map(plain, (min(places), max(places)))
        if places
        else ()
    )
    reach = " … ".join(map(clean, ends))
    table.add_column(Text(f"{clean(panel.x_label)}: {reach}"), max_width=BARS)
    for heading in ("first", "last", "lowest", "highest", "mean"):
        table.add_column(heading, justify="right", no_wrap=True)
    low, high = panel.span or _reach([y for curve in panel.curves for y in curve.y])
    for curve in panel.curves:
        table.add_row(Text(clean(curve.label)), _shape(curve, low, high), *_facts(curve))
    return table


def _shape(curve: Curve, low: float, high: float) -> str:
    values = [y for y in curve.y if math.isfinite(y)]
    step = max(1, math.ceil(len(values) / BARS))
    return sparkline(values[::step], low, high) if values else ""


def _facts(curve: Curve) -> list[str]:
    values = [y for y in curve.y if math.isfinite(y)]
    if not values:
        return ["–"] * 5
    return [plain(v) for v in (values[0], values[-1], min(values), max(values), fmean(values))]


def _reach(values: Sequence[float]) -> tuple[float, float]:
    finite = [v for v in values if math.isfinite(v)] or [0.0]
    return (min(finite), max(finite)) if max(finite) > min(finite) else (min(finite), min(finite) + 1)


def _empty(title: str, *, tight: bool = False) -> Drawn:
    heading = Text(title, "bold") if title else None
    return Drawn(title=heading, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 0 if tight else 1, 0, 0))
