"""Artefacts as PNG, SVG or PDF, drawn on white."""

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.text import Text

from invariance.core.artefacts import Artefact, Boxes, Curve, Figure, Formula, Lines, Surface, Table
from invariance.core.text import clean
from invariance.report.render.charts import MANY_POINTS, crowded, few_ticks
from invariance.report.render.drawn_table import draw_table
from invariance.report.render.formats import plain
from invariance.report.render.formulas import as_latex
from invariance.report.render.latex import SYMBOLS
from invariance.report.render.palette import CURVE_SYMBOLS, INK, Palette, palette, symbols

ACROSS = 3
"""Panels beside each other, at most."""
ABOVE_NAMES = 20
"""Points between a panel and its title, where lines have their names in between."""
MARKERS = dict(zip(CURVE_SYMBOLS, "osDph*", strict=True))
DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
STYLE: dict[Any, Any] = {"font.size": 9, "axes.titlesize": 10, "svg.hashsalt": "invariance", "svg.fonttype": "path"}


def draw(artefact: Artefact, path: Path, how: str, colours: Palette | None = None, *, titled: bool = True) -> None:
    """Draw an artefact into a file as png, jpg, svg or pdf. Where it gets a caption it needs no title."""
    with warnings.catch_warnings(), mpl.rc_context(STYLE):
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script that the font does not have
        if isinstance(artefact, Table):
            canvas = draw_table(artefact)
        else:
            canvas = _figure(
                artefact, palette([artefact]) if colours is None else colours, artefact.full_title * titled
            )
        when = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(how)
        canvas.savefig(path, format=how, dpi=150, metadata=when, bbox_inches="tight", facecolor="white")


def _figure(figure: Figure, colours: Palette, title: str) -> Canvas:
    across = 2 if len(figure.panels) == 4 else min(ACROSS, max(len(figure.panels), 1))
    down = math.ceil(len(figure.panels) / across) or 1
    canvas = Canvas(figsize=(6.4 if across == 1 else 4.2 * across, 3.6 * down + 0.5), layout="constrained")
    if title:
        _words(canvas.suptitle(" "), title)
    levels = _levels(figure)
    for place, panel in enumerate(figure.panels, 1):
        axes = canvas.add_subplot(down, across, place)
        named = isinstance(panel, Lines) and any(mark.kind == "line" for mark in panel.marks)
        _words(axes.set_title(" ", pad=ABOVE_NAMES if named else None), panel.title)
        axes.spines[["top", "right"]].set_visible(False)
        match panel:
            case Lines():
                _lines(axes, panel, colours, symbols(figure))
            case Boxes():
                _boxes(axes, panel, colours)
            case Surface():
                _surface(axes, panel, levels)
    _legend(canvas, figure, colours)
    return canvas


def _lines(axes: Axes, panel: Lines, colours: Palette, own: Mapping[str, str]) -> None:
    triangles = {mark.x for mark in panel.marks if mark.kind == "triangle"}
    for curve in panel.curves:
        style = _style(colours, curve.drawn_as, dashed=curve.dashed)
        marker = MARKERS[own[curve.label]] if len(curve.x) <= MANY_POINTS else ""
        axes.plot(curve.x, curve.y, marker=marker, markersize=3.5, **style)
        _band(axes, curve, style["color"], crowded=crowded(panel))
        point = {"color": style["color"], "ls": ""}
        at = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if x in triangles]
        _points(axes, at, marker="^", markersize=8, **point)
        _points(axes, curve.printed, marker="o", markersize=7, markerfacecolor="none", **point)
        _points(axes, [flag[:2] for flag in curve.flags], marker="x", markersize=6, markeredgewidth=2, **point)
    for mark in panel.marks:
        if mark.kind == "line":
            axes.axvline(mark.x, color="#888888", lw=0.8, ls=":")
            _words(
                axes.text(mark.x, 1.0, " ", transform=axes.get_xaxis_transform(), va="bottom", ha="center"), mark.name
            )
    _axes_names(axes, panel.x_label, panel.y_label)
    axes.grid(alpha=0.25)
    _scales(axes, panel)


def _band(axes: Axes, curve: Curve, colour: str, *, crowded: bool) -> None:
    """One standard deviation each way; bars where bands would hide each other."""
    if not (curve.low and curve.high):
        return
    if crowded:
        down = [y - low for y, low in zip(curve.y, curve.low, strict=True)]
        up = [high - y for y, high in zip(curve.y, curve.high, strict=True)]
        axes.errorbar(curve.x, curve.y, (down, up), color=colour, ls="", elinewidth=0.8, capsize=2)
    else:
        axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, lw=0)


def _points(axes: Axes, points: Sequence[Sequence[float]], **how: Any) -> None:
    if points:
        axes.plot([x for x, _ in points], [y for _, y in points], **how)


def _scales(axes: Axes, panel: Lines) -> None:
    if panel.log_x:
        axes.set_xscale("log")
        if values := few_ticks(panel):
            axes.set_xticks(values, [plain(x) for x in values], rotation=30, ha="right")
            axes.minorticks_off()
    if panel.log_y:
        axes.set_yscale("log", nonpositive="mask")
    if panel.span:
        axes.set_ylim(*panel.span)
    if panel.places:
        _places(axes, panel.places)


def _boxes(axes: Axes, panel: Boxes, colours: Palette) -> None:
    for place, (group, values) in enumerate(panel.groups.items()):
        line = {"color": _style(colours, group)["color"]}
        axes.boxplot(
            [list(values)],
            positions=[place],
            widths=0.6,
            manage_ticks=False,
            boxprops=line,
            whiskerprops=line,
            capprops=line,
            medianprops=line,
            flierprops={"markeredgecolor": line["color"], "markersize": 3},
        )
    _places(axes, list(panel.groups))
    _axes_names(axes, "", panel.y_label)
    axes.grid(alpha=0.25, axis="y")


def _surface(axes: Axes, panel: Surface, levels: Sequence[float]) -> None:
    drawn = axes.contourf(panel.x, panel.y, panel.z, levels=levels)
    lines = axes.contour(panel.x, panel.y, panel.z, levels=levels[::2], colors="white", linewidths=0.5)
    axes.clabel(lines, fontsize=7, fmt="%.3g")
    bar = axes.figure.colorbar(drawn, ax=axes)
    _words(bar.ax.yaxis.label, panel.z_label)
    _axes_names(axes, panel.x_label, panel.y_label)


def _levels(figure: Figure) -> list[float]:
    """Heights of contours, common to all surfaces of a figure."""
    heights = [z for panel in figure.panels if isinstance(panel, Surface) for row in panel.z for z in row]
    heights = [z for z in heights if math.isfinite(z)] or [0.0]
    low, high = min(heights), max(heights)
    step = (high - low or 1.0) / 24
    return [low + i * step for i in range(25)]


def _legend(canvas: Canvas, figure: Figure, colours: Palette) -> None:
    """One for all panels, each curve once."""
    curves = {c.label: c for panel in figure.panels if isinstance(panel, Lines) for c in panel.curves}
    if not curves:
        return
    markers = {label: MARKERS[symbol] for label, symbol in symbols(figure).items()}
    handles = [
        Line2D([], [], marker=markers[label], markersize=3.5, **_style(colours, c.drawn_as, dashed=c.dashed))
        for label, c in curves.items()
    ]
    legend = canvas.legend(handles, [" "] * len(handles), loc="outside right center", frameon=False)
    for text, name in zip(legend.get_texts(), curves, strict=True):
        _words(text, name)


def _style(colours: Palette, name: str, *, dashed: bool = False) -> dict[str, Any]:
    style = colours[name]
    colour = "black" if style.colour == INK else style.colour
    return {"color": colour, "ls": DASHES["dash" if dashed else style.dash], "lw": 2.2 if style.bold else 1.6}


def _places(axes: Axes, names: Sequence[str]) -> None:
    """Names at 0, 1, 2, …"""
    axes.set_xticks(range(len(names)), [clean(name) for name in names], rotation=30, ha="right")
    for tick in axes.get_xticklabels():
        tick.set_parse_math(False)


def _axes_names(axes: Axes, x: str, y: str) -> None:
    _words(axes.xaxis.label, x)
    _words(axes.yaxis.label, y)


def _words(place: Text, words: str) -> None:
    """Write words as they are: a dollar sign begins no formula, an underscore hides nothing. A formula is typeset."""
    formula = isinstance(words, Formula)
    place.set_text(f"${as_latex(clean(words), SYMBOLS)}$" if formula else clean(words))
    place.set_parse_math(formula)
