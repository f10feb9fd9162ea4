"""A sheet as a rectangle of text: our number, the printed one and their difference each in a column of its own."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from invariance.core.artefacts import Artefact
from invariance.report.render.sheets import Entry, Sheet, sheets

WIDE = 10
"""Columns beyond which a table is split into one for each group."""


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


def text_tables(artefact: Artefact) -> tuple[TextTable, ...]:
    """An artefact as one table or several, none of them much wider than a page if it can be helped."""
    return tuple(table for sheet in sheets(artefact) for table in _parts(sheet))


def _parts(sheet: Sheet) -> Iterator[TextTable]:
    whole = _text_table(sheet)
    if whole.width > WIDE and len(sheet.groups) > 1:
        yield from map(_text_table, sheet.split())
    else:
        yield whole


def _text_table(sheet: Sheet) -> TextTable:
    headings: list[tuple[str, str, str]] = [("", "", sheet.heading)]
    numeric = [False]
    for index, column in enumerate(sheet.columns):
        if sheet.compares(index):
            headings += [(column.group, column.name, part) for part in ("ours", "printed", "difference")]
            numeric += [True] * 3
        else:
            headings.append((column.group, "", column.name))
            numeric.append(sheet.numeric(index))
    rows = tuple((row.label, *_texts(sheet, row.entries)) for row in sheet.rows)
    header = tuple(line for line in zip(*headings, strict=True) if any(line))
    return TextTable(sheet.title, header or (("",) * len(headings),), rows, tuple(numeric), sheet.footnotes)


def _texts(sheet: Sheet, entries: tuple[Entry, ...]) -> Iterator[str]:
    for index, entry in enumerate(entries):
        mark = f" [{entry.mark}]" if entry.mark else ""
        yield entry.text + mark
        if sheet.compares(index):
            yield from (entry.printed, entry.difference)
