"""A table as a picture: booktabs rules, our numbers with the printed ones small beneath."""

from collections.abc import Iterator, Sequence

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.text import Text

from invariance.core.artefacts import Table
from invariance.core.text import clean
from invariance.report.render.sheets import Entry, Sheet, sheets

LINE, SMALL, PAD = 0.24, 0.15, 0.22
"""Inches: a line of text, one of small text, the space between columns."""
GREY = "#666666"


def draw_table(table: Table) -> Canvas:
    """The whole table."""
    (sheet,) = sheets(table)
    pen = Pen()
    widths = _widths(sheet, pen)
    rights = [sum(widths[: i + 1]) for i in range(len(widths))]
    y = pen.text(0, 0, clean(table.full_title), size=11, weight="bold") + LINE
    y = _header(sheet, pen, widths, rights, y)
    for row in sheet.rows:
        tall = any(_beneath(entry) for entry in row.entries)
        pen.text(0, y, row.label)
        for entry, right in zip(row.entries, rights[1:], strict=True):
            pen.text(right, y, entry.text, align="right", mark=entry.mark)
            if tall:
                pen.text(right, y + SMALL + 0.03, _beneath(entry), align="right", size=6.5, color=GREY)
        y += LINE + (SMALL if tall else 0)
    pen.rule(0, rights[-1], y)
    for note in _notes(table, sheet):
        y += SMALL
        pen.text(0, y, note, size=6.5, color=GREY)
    return pen.finish(rights[-1], y + LINE)


def _header(sheet: Sheet, pen: "Pen", widths: Sequence[float], rights: Sequence[float], y: float) -> float:
    pen.rule(0, rights[-1], y)
    if any(column.group for column in sheet.columns):
        column = 1
        for group, length in sheet.groups:
            left, right = rights[column - 1] + PAD, rights[column + length - 1]
            pen.text((left + right) / 2, y, group, align="center")
            if group:
                pen.rule(left, right, y + LINE, thin=True)
            column += length
        y += LINE
    pen.text(0, y, sheet.heading)
    for column_, right in zip(sheet.columns, rights[1:], strict=True):
        pen.text(right, y, column_.name, align="right")
    pen.rule(0, rights[-1], y + LINE)
    return y + LINE


def _widths(sheet: Sheet, pen: "Pen") -> list[float]:
    """Of every column, so that its texts fit and its group's heading too."""
    widths = [max(pen.width(text) for text in (sheet.heading, *(row.label for row in sheet.rows)))]
    for i, column in enumerate(sheet.columns):
        entries = [row.entries[i] for row in sheet.rows]
        texts = [pen.width(e.text) + (0.08 if e.mark else 0) for e in entries]
        small = [pen.width(_beneath(e), 6.5) for e in entries]
        widths.append(PAD + max([pen.width(column.name), *texts, *small]))
    start = 1
    for group, length in sheet.groups:
        missing = PAD + pen.width(group) - sum(widths[start : start + length])
        for i in range(start, start + length):
            widths[i] += max(missing, 0) / length
        start += length
    return widths


def _beneath(entry: Entry) -> str:
    return "  ".join(filter(None, (entry.printed, entry.difference)))


def _notes(table: Table, sheet: Sheet) -> Iterator[str]:
    if any(sheet.compares(i) for i in range(len(sheet.columns))):
        yield "Small: printed in the paper, and ours less printed."
    yield from (f"{mark}  {note}" for mark, note in sheet.footnotes)
    yield from map(clean, table.notes)
    yield clean(table.provenance)


class Pen:
    """Writes at inches from the top left; the canvas gets its size when all is written."""

    def __init__(self) -> None:
        self.canvas = Canvas(figsize=(1, 1), dpi=100)
        self.renderer = FigureCanvasAgg(self.canvas).get_renderer()  # type: ignore[no-untyped-call]
        self.texts: list[tuple[float, float, str, dict[str, object]]] = []
        self.rules: list[tuple[float, float, float, float]] = []

    def width(self, words: str, size: float = 9) -> float:
        """In inches."""
        measured = Text(0, 0, words, fontsize=size, parse_math=False, figure=self.canvas)
        return float(measured.get_window_extent(self.renderer).width) / self.canvas.dpi if words else 0.0

    def text(
        self, x: float, y: float, words: str, *, align: str = "left", mark: str = "", size: float = 9, **how: object
    ) -> float:
        """Words with their top at y; gives y back."""
        self.texts.append((x, y, words, {"ha": align, "fontsize": size, **how}))
        if mark:
            self.texts.append((x + 0.01, y - 0.02, mark, {"ha": "left", "fontsize": 6, "color": GREY}))
        return y

    def rule(self, left: float, right: float, y: float, *, thin: bool = False) -> None:
        """A line across."""
        self.rules.append((left, right, y, 0.5 if thin else 1.0))

    def finish(self, width: float, height: float) -> Canvas:
        """The canvas, just as large as what stands on it."""
        self.canvas.set_size_inches(width + 0.2, height)
        axes = self.canvas.add_axes((0, 0, 1, 1))
        axes.set(xlim=(-0.1, width + 0.1), ylim=(height, 0))
        axes.axis("off")
        for x, y, words, how in self.texts:
            axes.text(x, y + 0.05, words, va="top", parse_math=False, **how)  # type: ignore[arg-type]
        for left, right, y, weight in self.rules:
            axes.plot([left, right], [y, y], color="black", lw=weight, solid_capstyle="butt")
        return self.canvas
