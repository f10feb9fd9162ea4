"""Artefacts as CSV for machines: plain numbers, every one in a column of its own."""

import csv
import io
import math
from collections.abc import Iterator
from functools import partial

from invariance.core.artefacts import (
    Artefact,
    Boxes,
    Cell,
    Difference,
    Figure,
    Line,
    Lines,
    Panel,
    Quantity,
    Sparkline,
    Surface,
    Table,
)
from invariance.core.text import clean, spreadsheet_text
from invariance.report.render.formats import numbered

Record = dict[str, str | float]


def records(artefact: Artefact) -> list[Record]:
    """One record per number: of a table with its place in it, of a figure as it is drawn."""
    return list(_table(artefact) if isinstance(artefact, Table) else _figure(artefact))


def comma_separated(artefact: Artefact) -> str:
    """All records under one line of names, without the columns that none of them uses."""
    rows = records(artefact)
    names = list(dict.fromkeys(name for row in rows for name in row))
    used = [name for name in names if any(_field(row.get(name, "")) for row in rows)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(used)
    writer.writerows([_field(row.get(name, "")) for name in used] for row in rows)
    return text.getvalue()


def _table(table: Table) -> Iterator[Record]:
    if table.listing:
        yield from map(partial(_listed, table), table.lines)
        return
    for line in table.lines:
        for column, cell in zip(table.columns, line.cells, strict=True):
            if cell not in ("", ()):
                yield {"line": line.label, "group": column.group, "column": column.name, **_cell(cell)}


def _listed(table: Table, line: Line) -> Record:
    """A line as one record, a column for each of its cells; of a number of ours, its mean."""
    names = (table.heading, *(column.name for column in table.columns))
    plain = [(_cell(cell) if cell != "" else {"value": ""}) for cell in line.cells]
    values = [next(cell[name] for name in ("mean", "value", "text") if name in cell) for cell in plain]
    return dict(zip(names, (line.label, *values), strict=True))


def _cell(cell: Cell) -> Record:
    match cell:
        case Quantity():
            printed = cell.printed
            return {
                "mean": cell.mean,
                "std": cell.std,
                "seeds": len(cell.ours),
                "seeds_run": cell.seeds or "",
                "collapsed": cell.collapsed if cell.seeds else "",
                "printed_mean": printed.mean if printed else "",
                "printed_std": "" if printed is None or printed.std is None else printed.std,
                "difference": cell.difference,
                "note": cell.note,
            }
        case Difference():
            ends = {"low": cell.low, "high": cell.high}
            return {"mean": cell.mean, **ends, "seeds": len(cell.values), "note": cell.note}
        case Sparkline():
            return {"text": " ".join(map(repr, cell.values))}
        case tuple():
            return {"text": numbered(cell)}
        case str():
            return {"text": cell}
        case _:
            return {"value": cell}


def _figure(figure: Figure) -> Iterator[Record]:
    for number, panel in enumerate(figure.panels, 1):
        for record in _panel(panel):
            yield {"panel": panel.title or str(number), **record}


def _panel(panel: Panel) -> Iterator[Record]:
    match panel:
        case Lines():
            for curve in panel.curves:
                nothing = (math.nan,) * len(curve.x)
                for x, y, low, high in zip(curve.x, curve.y, curve.low or nothing, curve.high or nothing, strict=True):
                    at = panel.places[int(x)] if panel.places else x
                    yield {"series": curve.label, "x": at, "y": y, "low": low, "high": high}
                for x, y in curve.printed:
                    yield {"series": curve.label, "x": x, "printed": y}
                for flag in curve.flags:
                    yield {"series": curve.label, "x": flag.x, "y": flag.y, "note": flag.note}
        case Boxes():
            for group, values in panel.groups.items():
                for value in values:
                    yield {"series": group, "y": value}
        case Surface():
            for y, row in zip(panel.y, panel.z, strict=True):
                for x, z in zip(panel.x, row, strict=True):
                    yield {"x": x, "y": y, "z": z}


def _field(value: str | float) -> str:
    if not isinstance(value, str):
        return "" if math.isnan(value) else repr(value)
    return spreadsheet_text(clean(value))
