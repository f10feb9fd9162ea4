"""A sheet as a rectangle of text: our number, the printed one and their difference each in a column of its own."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, groupby

from invariance.core.artefacts import Artefact, Formula
from invariance.report.render.sheets import Entry, Sheet, sheets

WIDE = 10
"""Columns beyond which a table is split between its groups."""
DOT = " · "
"""Between the parts of a heading."""


@dataclass(frozen=True)
class TextTable:
    """``header`` has one line or more, each with one text per column; neighbours that share it are one heading.

    ``numeric`` says of each column whether it has numbers.
    """

    title: str
    header: tuple[tuple[str, ...], ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    footnotes: tuple[tuple[str, str], ...] = ()

    @property
    def width(self) -> int:
        """How many columns it has, that of the labels included."""
        return len(self.header[0])

    def spans(self, level: int) -> list[tuple[str, int]]:
        """Headings of a line with the number of columns each stands over."""
        if level == len(self.header) - 1:
            return [(text, 1) for text in self.header[level]]
        above = zip(*self.header[: level + 1], strict=True)
        return [(texts[-1], len(list(columns))) for texts, columns in groupby(above)]

    def names(self) -> list[str]:
        """One heading per column, for formats that have only one line of them."""
        return [", ".join(dict.fromkeys(filter(None, texts))) for texts in zip(*self.header, strict=True)]

    def shared(self) -> str:
        """What all names but the first begin with: whole headings, or parts of one that dots join; mostly nothing."""
        own = [set(_beginnings(texts)) for texts in list(zip(*self.header, strict=True))[1:]]
        return max(set.intersection(*own), key=len, default="") if len(own) > 1 else ""


def _beginnings(headings: Iterable[str]) -> Iterator[str]:
    """Of the name that these headings give: up to each of them, and up to each dot."""
    before = ""
    for heading in dict.fromkeys(filter(None, headings)):
        yield from accumulate((f"{part}{DOT}" for part in heading.split(DOT)[:-1]), initial=before)
        before += f"{heading}, "


def few_columns(table: TextTable) -> bool:
    """Whether a table is read without scrolling."""
    return table.width <= WIDE


def text_tables(artefact: Artefact, fits: Callable[[TextTable], bool] = few_columns) -> tuple[TextTable, ...]:
    """An artefact as one table or several: groups of columns stay together as long as they fit."""
    return tuple(table for sheet in sheets(artefact) for table in _parts(sheet, fits))


def _parts(sheet: Sheet, fits: Callable[[TextTable], bool]) -> Iterator[TextTable]:
    whole = _text_table(sheet)
    if fits(whole) or len(sheet.groups) < 2:
        yield whole
        return
    start = 0
    for stop in range(1, len(sheet.groups) + 1):
        if stop == len(sheet.groups) or not fits(_text_table(sheet.part(slice(start, stop + 1)))):
            yield _text_table(sheet.part(slice(start, stop)))
            start = stop


def _text_table(sheet: Sheet) -> TextTable:
    headings: list[tuple[str, str, str]] = [("", "", sheet.heading)]
    numeric = [False]
    for index, column in enumerate(sheet.columns):
        parts = _headings(sheet, index)
        if len(parts) > 1:
            headings += [(column.group, column.name, part) for part in parts]
        else:
            headings.append((column.group, "", column.name))
        numeric += [sheet.numeric(index)] * len(parts)
    rows = tuple((row.label, *_texts(sheet, row.entries)) for row in sheet.rows)
    header = tuple(line for line in zip(*headings, strict=True) if any(line))
    return TextTable(sheet.title, header or (("",) * len(headings),), rows, tuple(numeric), sheet.footnotes)


def _headings(sheet: Sheet, column: int) -> list[str]:
    """What a column of a sheet becomes: ours alone, or the printed number, the difference and the seeds beside it."""
    compared = ["printed", "difference"] if sheet.compares(column) else []
    return ["ours", *compared, *(["n"] if sheet.counts_seeds(column) else [])]


def _texts(sheet: Sheet, entries: tuple[Entry, ...]) -> Iterator[str]:
    for index, entry in enumerate(entries):
        mark = f" [{entry.mark}]" if entry.mark else ""
        yield Formula(entry.text) if entry.formula else entry.text + mark
        if sheet.compares(index):
            yield from (entry.printed, entry.difference)
        if sheet.counts_seeds(index):
            yield entry.seeds.removeprefix("n = ")
