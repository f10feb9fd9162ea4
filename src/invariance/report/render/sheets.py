"""Any artefact as lines of short texts under headings: the common base of everything that is typeset or drawn."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean, quantiles
from string import ascii_lowercase
from typing import Literal

from invariance.core.artefacts import (
    Artefact,
    Boxes,
    Cell,
    Column,
    Difference,
    Figure,
    Formula,
    Lines,
    Panel,
    Quantity,
    Sparkline,
    Surface,
    Table,
)
from invariance.core.text import clean
from invariance.report.render.formats import (
    collapsed,
    difference,
    interval,
    mean,
    numbered,
    plain,
    printed,
    same_decimals,
    seeds,
)
from invariance.report.render.sparkline import sparkline

FEW_WORDS = 40
"""In characters."""


@dataclass(frozen=True)
class Entry:
    """A place in a sheet: our number or a word, the printed number beside it, and the mark of a footnote.

    ``value`` is what it is sorted by; words have none. A ``formula`` may be typeset; ``sentences`` may be a list.
    ``seeds`` says what a mean rests on, and ``collapsed`` what is not in it, or is all the same. ``clear`` is a
    difference whose interval leaves zero out.
    """

    text: str
    printed: str = ""
    difference: str = ""
    mark: str = ""
    value: float | None = None
    formula: bool = False
    sentences: tuple[str, ...] = ()
    seeds: str = ""
    collapsed: str = ""
    clear: bool = False

    @property
    def blank(self) -> bool:
        """Whether nothing stands here."""
        return not (self.text or self.printed or self.mark)


@dataclass(frozen=True)
class SheetRow:
    """A line of a sheet."""

    label: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Sheet:
    """Rows under columns, with footnotes as (mark, text).

    ``seeds_differ`` says that means of the whole table rest on different numbers of seeds; a part of it keeps that.
    """

    title: str
    heading: str
    columns: tuple[Column, ...]
    rows: tuple[SheetRow, ...]
    footnotes: tuple[tuple[str, str], ...] = ()
    seeds_differ: bool = False

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Every group of neighbouring columns, and how many they are."""
        return [(group, len(list(columns))) for group, columns in groupby(c.group for c in self.columns)]

    def compares(self, column: int) -> bool:
        """Whether a column has a printed number."""
        return any(row.entries[column].printed for row in self.rows)

    def counts_seeds(self, column: int) -> bool:
        """Whether a column says on how many seeds each mean rests: where that is not one number for the table."""
        return self.seeds_differ and any(row.entries[column].seeds for row in self.rows)

    def has(self, what: Literal["printed", "seeds", "clear"]) -> bool:
        """Whether some place has this."""
        return any(getattr(entry, what) for row in self.rows for entry in row.entries)

    def numeric(self, column: int) -> bool:
        """Whether a column has numbers."""
        return any(row.entries[column].value is not None or row.entries[column].printed for row in self.rows)

    @property
    def wordy(self) -> bool:
        """Whether it has texts of more than a few words."""
        return any(len(entry.text) > FEW_WORDS for row in self.rows for entry in row.entries)

    def part(self, groups: slice) -> "Sheet":
        """The columns of some groups that stand side by side, and the rows that have something there.

        A single group becomes the title.
        """
        lengths = [length for _, length in self.groups]
        own = self.groups[groups]
        first = sum(lengths[: groups.start])
        columns = slice(first, first + sum(length for _, length in own))
        rows = tuple(SheetRow(row.label, row.entries[columns]) for row in self.rows)
        rows = tuple(row for row in rows if not all(entry.blank for entry in row.entries))
        marks = {entry.mark for row in rows for entry in row.entries}
        notes = tuple(note for note in self.footnotes if note[0] in marks)
        part = replace(self, columns=self.columns[columns], rows=rows, footnotes=notes)
        if len(own) > 1:
            return part
        title = " · ".join(filter(None, (self.title, own[0][0])))
        return replace(part, title=title, columns=tuple(replace(column, group="") for column in part.columns))


def sheets(artefact: Artefact) -> tuple[Sheet, ...]:
    """The table, or a sheet for each panel of the figure."""
    if isinstance(artefact, Table):
        return (_table(artefact),)
    return tuple(_panel(panel) for panel in artefact.panels)


class Footnotes:
    """Notes by their marks a, b, c, …, each listed once."""

    def __init__(self) -> None:
        self.marks: dict[str, str] = {}

    def mark(self, note: str) -> str:
        """The mark of a note; an empty note has none."""
        if not note:
            return ""
        return self.marks.setdefault(note, _letters(len(self.marks)))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((mark, note) for note, mark in self.marks.items())


def _letters(index: int) -> str:
    rest, last = divmod(index, len(ascii_lowercase))
    return (_letters(rest - 1) if rest else "") + ascii_lowercase[last]


def _table(table: Table) -> Sheet:
    notes = Footnotes()
    columns = tuple(Column(clean(c.name), clean(c.group)) for c in table.columns)
    texts = [_numbers([line.cells[i] for line in table.lines]) for i in range(len(columns))]
    rows = tuple(
        SheetRow(
            clean(line.label), tuple(_entry(cell, text[i], notes) for cell, text in zip(line.cells, texts, strict=True))
        )
        for i, line in enumerate(table.lines)
    )
    return Sheet("", clean(table.heading), columns, rows, tuple(notes), _seeds_differ(rows))


def _seeds_differ(rows: Sequence[SheetRow]) -> bool:
    """Where all seeds collapsed there is no mean, and a footnote says so."""
    entries = [entry for row in rows for entry in row.entries if entry.seeds and entry.value is not None]
    return any(entry.collapsed for entry in entries) or len({entry.seeds for entry in entries}) > 1


def _numbers(cells: Sequence[Cell]) -> list[str]:
    """The plain numbers of a column as text, with the same decimals; empty where there is something else."""
    texts = iter(same_decimals([cell for cell in cells if isinstance(cell, int | float)]))
    return [next(texts) if isinstance(cell, int | float) else "" for cell in cells]


def _entry(cell: Cell, text: str, notes: Footnotes) -> Entry:
    match cell:
        case Quantity():
            value = None if math.isnan(cell.mean) else cell.mean
            mark = notes.mark(clean(cell.note))
            beside = (printed(cell.printed), difference(cell))
            return Entry(mean(cell), *beside, mark, value, seeds=seeds(cell), collapsed=collapsed(cell))
        case Difference():
            value = None if math.isnan(cell.mean) else cell.mean
            many = f"n = {len(cell.values)}" if cell.values else ""
            return Entry(interval(cell), mark=notes.mark(cell.note), value=value, seeds=many, clear=cell.clear)
        case Sparkline():
            return Entry(sparkline(cell.values, cell.low, cell.high))
        case tuple():
            return Entry(numbered(cell), sentences=tuple(map(clean, cell)))
        case str():
            return Entry(clean(cell), formula=isinstance(cell, Formula))
        case _:
            return _number(cell, text)


def _number(value: float, text: str) -> Entry:
    return Entry(text, value=None if math.isnan(value) else value)


def _panel(panel: Panel) -> Sheet:
    match panel:
        case Lines():
            return _lines(panel)
        case Boxes():
            names = ["values", "lowest", "25 %", "median", "75 %", "highest", "mean"]
            rows = [(group, _summary(values)) for group, values in panel.groups.items()]
            return _plain_sheet(panel.title, panel.y_label, names, rows)
        case Surface():
            names = ["lowest", f"at {panel.x_label}", f"at {panel.y_label}", "mean", "highest"]
            return _plain_sheet(panel.title, "", names, [(panel.z_label, _extremes(panel))])


def _lines(panel: Lines) -> Sheet:
    """The positions down, the curves across."""
    places = sorted({x for curve in panel.curves for x in curve.x})
    known = [dict(zip(curve.x, curve.y, strict=True)) for curve in panel.curves]
    names = {float(i): name for i, name in enumerate(panel.places)}
    rows = [(names.get(x, plain(x)), [values.get(x, math.nan) for values in known]) for x in places]
    return _plain_sheet(panel.title, panel.x_label, [curve.label for curve in panel.curves], rows, panel.y_label)


def _plain_sheet(
    title: str, heading: str, names: Sequence[str], rows: Sequence[tuple[str, Sequence[float]]], group: str = ""
) -> Sheet:
    columns = tuple(Column(clean(name), clean(group)) for name in names)
    texts = zip(*(same_decimals(column) for column in zip(*(values for _, values in rows), strict=True)), strict=True)
    lines = tuple(
        SheetRow(clean(label), tuple(map(_number, values, text)))
        for (label, values), text in zip(rows, texts, strict=True)
    )
    return Sheet(clean(title), clean(heading), columns, lines)


def _summary(values: Sequence[float]) -> list[float]:
    if not values:
        return [0, *[math.nan] * 6]
    quartiles = quantiles(values, n=4, method="inclusive") if len(values) > 1 else list(values) * 3
    return [len(values), min(values), *quartiles, max(values), fmean(values)]


def _extremes(surface: Surface) -> list[float]:
    points = [
        (z, x, y) for y, row in zip(surface.y, surface.z, strict=True) for x, z in zip(surface.x, row, strict=True)
    ]
    points = [point for point in points if math.isfinite(point[0])]
    if not points:
        return [math.nan] * 5
    return [*min(points), fmean(z for z, _, _ in points), max(points)[0]]


def is_empty(figure: Figure) -> bool:
    """Whether a figure has nothing to draw."""
    return not any(_drawn(panel) for panel in figure.panels)


def _drawn(panel: Panel) -> bool:
    match panel:
        case Lines():
            return any(curve.x or curve.flags for curve in panel.curves)
        case Boxes():
            return any(panel.groups.values())
        case Surface():
            return bool(panel.z)
