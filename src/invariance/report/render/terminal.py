"""Artefacts in a terminal of any width: tables in as many parts as fit, curves as bars."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table as Drawn
from rich.text import Text

from invariance.core.artefacts import Artefact, Curve, Lines, Table
from invariance.core.text import clean
from invariance.report.render.formats import plain
from invariance.report.render.sheets import Entry, Sheet, sheets
from invariance.report.render.sparkline import sparkline

WORDS = 30
"""Characters of a column of words that are kept on one line, where there is room for them."""
EDGES, GAP = 4, 2
"""Characters that the frame of a table takes, and that stand between two columns."""
BARS = 32


def show(artefact: Artefact) -> RenderableType:
    """Title, tables and notes, ready to print."""
    parts: list[RenderableType] = [Text(clean(artefact.full_title), "bold")]
    parts += [Text(clean(artefact.caption), "dim")] if artefact.caption else []
    if isinstance(artefact, Table):
        (sheet,) = sheets(artefact)
        parts.append(Fitted(sheet))
        parts += [Text(f"{mark} {note}", "yellow") for mark, note in sheet.footnotes]
    else:
        panels = zip(artefact.panels, sheets(artefact), strict=True)
        parts += [_curves(panel) if isinstance(panel, Lines) else Fitted(sheet) for panel, sheet in panels]
    parts += [Text(clean(note)) for note in artefact.notes]
    parts += [Text(clean(artefact.provenance), "dim")] if artefact.provenance else []
    return Group(*parts)


@dataclass(frozen=True)
class Printed:
    """A column in the terminal: a heading of one line or two, and a text for each row; words may be broken."""

    heading: str
    cells: list[Text]
    style: str = ""
    words: bool = False

    @property
    def width(self) -> int:
        """As wide as its widest text; words as wide as is needed to read them."""
        widest = max([*map(len, self.heading.split("\n")), *(cell.cell_len for cell in self.cells)])
        return min(widest, WORDS) if self.words else widest

    def aligned(self) -> tuple[Text, list[Text]]:
        """Its heading and its cells, numbers to the right."""
        if self.words:
            return Text(self.heading), self.cells
        heading = "\n".join(f"{line:>{self.width}}" for line in self.heading.split("\n"))
        return Text(heading), [Text(" " * (self.width - cell.cell_len)).append_text(cell) for cell in self.cells]


class Fitted:
    """A sheet as one table, or, where the terminal is too narrow for it, as several for each group of columns."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Every table that it takes; all of them begin with the labels."""
        groups = len(self.sheet.groups)
        whole = list(_tables(self.sheet, options.max_width))
        if len(whole) == 1 or groups == 1:
            yield from whole
        else:
            for group in range(groups):
                yield from _tables(self.sheet.part(slice(group, group + 1)), options.max_width)


def _tables(sheet: Sheet, width: int) -> Iterator[Drawn]:
    """As many columns in a table as fit into a terminal of this width."""
    labels = Printed(sheet.heading, [Text(row.label) for row in sheet.rows], words=True)
    label = min(max([len(sheet.heading), *(cell.cell_len for cell in labels.cells)]), width // 3)
    columns: list[Printed] = []
    for index in range(len(sheet.columns)):
        more = _printed(sheet, index)
        if columns and sum(column.width + GAP for column in (*columns, *more)) + label > width - EDGES:
            yield _drawn(sheet.title, labels, label, columns)
            columns = []
        columns += more
    yield _drawn(sheet.title, labels, label, columns)


def _drawn(title: str, labels: Printed, width: int, columns: Sequence[Printed]) -> Drawn:
    table = _empty(title)
    table.add_column(Text(labels.heading), min_width=width, max_width=max(width, 1), overflow="fold")
    cells = [labels.cells]
    for column in columns:
        heading, own = column.aligned()
        table.add_column(heading, style=column.style, no_wrap=not column.words, overflow="fold")
        cells.append(own)
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return table


def _printed(sheet: Sheet, index: int) -> list[Printed]:
    """A column of a sheet: our numbers, and beside them the printed ones, the differences and the seeds."""
    column = sheet.columns[index]
    entries = [row.entries[index] for row in sheet.rows]
    name = "\n".join(filter(None, (column.group, column.name)))
    if not sheet.numeric(index):
        return [Printed(name, [Text(entry.text) for entry in entries], words=True)]
    columns = [Printed(name, _aligned(entries))]
    if sheet.compares(index):
        columns.append(Printed("printed", [Text(entry.printed.partition(" ")[0]) for entry in entries], "dim"))
        columns.append(Printed("Δ", [Text(entry.difference) for entry in entries], "dim"))
    if sheet.counts_seeds(index):
        columns.append(Printed("n", [Text(entry.seeds.removeprefix("n = ")) for entry in entries], "dim"))
    return columns


def _aligned(column: Sequence[Entry]) -> list[Text]:
    """Numbers aligned to the right: mean, deviation and the mark of a footnote each by itself."""
    parts = [entry.text.partition(" ± ") for entry in column]
    width = max((len(deviation) for _, _, deviation in parts), default=0)
    room = " " * (width + len(" ±")) if width else ""
    texts = [mean + (f" ±{deviation:>{width}}" if deviates else room) for mean, deviates, deviation in parts]
    marks = max((len(entry.mark) for entry in column), default=0)
    notes = [f" {entry.mark:{marks}}" if marks else "" for entry in column]
    return [Text(text).append(note, "yellow") for text, note in zip(texts, notes, strict=True)]


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


def _empty(title: str) -> Drawn:
    heading = Text(title, "bold") if title else None
    return Drawn(title=heading, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
