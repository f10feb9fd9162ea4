"""Panels as plotly traces and axes: plain data, in which names are escaped and only colours wait for the theme."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from invariance.core.artefacts import Boxes, Curve, Figure, Formula, Lines, Panel, Surface
from invariance.core.text import clean
from invariance.report.render.formats import plain
from invariance.report.render.formulas import as_html
from invariance.report.render.palette import CURVE_SYMBOLS, Palette, symbols
from invariance.report.render.short_names import shortened

FEW_TICKS = 9
"""Up to so many places on a logarithmic axis are its ticks."""
ASIDE = 0.5
"""Of the distance between two named positions, the part that is used to set dots side by side."""
FEW_BANDS = 4
"""Bands that are still told apart."""
MANY_POINTS = 60
"""More points of a curve than this are not marked one by one."""
FEW = 40
"""Up to so many values of a group are drawn as points too."""


def charts(figure: Figure, palette: Palette) -> list[dict[str, Any]]:
    """One chart per panel; surfaces share their colour scale."""
    heights = [z for panel in figure.panels if isinstance(panel, Surface) for row in panel.z for z in row]
    heights = [z for z in heights if math.isfinite(z)]
    span = (min(heights), max(heights)) if heights else (0.0, 1.0)
    own = symbols(figure)
    return [_chart(panel, palette, span, own) for panel in figure.panels]


def legend(figure: Figure, palette: Palette) -> list[dict[str, str]]:
    """Every curve of a figure once, as it is drawn; boxes are named on their axis."""
    curves = {c.label: c for panel in figure.panels if isinstance(panel, Lines) for c in panel.curves if c.x or c.flags}
    own = symbols(figure)
    return [
        {
            "name": clean(name),
            "symbol": CURVE_SYMBOLS[own[name]] * (own[name] != next(iter(CURVE_SYMBOLS))),
            "colour": palette[curve.drawn_as].colour,
            "dash": "dash" if curve.dashed else palette[curve.drawn_as].dash,
        }
        for name, curve in curves.items()
    ]


def explained(figure: Figure) -> list[str]:
    """What the marks in a figure mean, in a sentence each; only those that are there."""
    lines = [panel for panel in figure.panels if isinstance(panel, Lines)]
    curves = [curve for panel in lines for curve in panel.curves]
    marks = dict.fromkeys(mark for panel in lines for mark in panel.marks)
    sentences = [f"{'▲' if mark.kind == 'triangle' else 'Vertical line'}: {mark.name}." for mark in marks]
    if any(curve.printed for curve in curves):
        sentences.append("Hollow circles: printed in the paper.")
    if any(curve.flags for curve in curves):
        sentences.append("✕: seeds collapsed here, some or all; where all did, it stands at their mean.")
    if any(crowded(panel) for panel in lines):
        sentences.append("Bands of one standard deviation appear for the method under the pointer.")
    return sentences


def crowded(panel: Lines) -> bool:
    """Whether bands would lie over each other, so that only one is shown at a time."""
    return sum(bool(curve.low) for curve in panel.curves) > FEW_BANDS and not panel.places


def embedded(value: Any) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element or opens a comment."""
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def label(text: str) -> str:
    """Text as plotly shows it literally: it reads some tags and entities in labels. A formula is typeset."""
    return as_html(text) if isinstance(text, Formula) else escape(clean(text), quote=False)


def _ticks(places: Sequence[float], names: Iterable[str]) -> dict[str, Any]:
    """Names at places on an axis, shortened so that they leave room for what is drawn."""
    short = shortened(list(map(clean, names)))
    return {"tickvals": places, "ticktext": list(map(label, short)), "ticklabeloverflow": "allow"}


def _chart(panel: Panel, palette: Palette, span: tuple[float, float], own: Mapping[str, str]) -> dict[str, Any]:
    match panel:
        case Lines():
            return _lines(panel, palette, own)
        case Boxes():
            return _boxes(panel, palette)
        case Surface():
            return _surface(panel, span)


def _lines(panel: Lines, palette: Palette, own: Mapping[str, str]) -> dict[str, Any]:
    if panel.places:
        traces = [_dots(curve, i, len(panel.curves), palette) for i, curve in enumerate(panel.curves)]
    else:
        traces = [_band(curve, palette) for curve in panel.curves if curve.low and curve.high]
        traces += [_line(curve, palette, panel, own[curve.label]) for curve in panel.curves]
        traces += [trace for curve in panel.curves for trace in _points(curve, palette)]
    layout: dict[str, Any] = {
        "xaxis": _axis(panel.x_label) | (_logarithmic([x for c in panel.curves for x in c.x]) if panel.log_x else {}),
        "yaxis": _axis(panel.y_label) | (_logarithmic([y for c in panel.curves for y in c.y]) if panel.log_y else {}),
        "hovermode": "x unified" if len(panel.curves) <= FEW_BANDS and not panel.places else "closest",
    }
    if panel.places:
        layout["xaxis"] |= _ticks(range(len(panel.places)), panel.places) | {"range": [-0.5, len(panel.places) - 0.5]}
    elif values := few_ticks(panel):
        margin = 0.03 if len(values) > 1 else 0.5  # a tick on the very edge is not drawn
        ends = [math.log10(values[0]) - margin, math.log10(values[-1]) + margin]
        layout["xaxis"] |= _ticks(values, map(plain, values)) | {"range": ends}
    if panel.span:
        layout["yaxis"]["range"] = [math.log10(end) for end in panel.span] if panel.log_y else list(panel.span)
    layout |= _marked(panel)
    return {"traces": traces, "layout": layout, "crowded": crowded(panel)}


def _marked(panel: Lines) -> dict[str, Any]:
    """A line across where the paper has one, with its name."""
    marks = [mark for mark in panel.marks if mark.kind == "line"]
    at = [math.log10(mark.x) if panel.log_x else mark.x for mark in marks]
    line = {"color": "#888888", "width": 1, "dash": "dot"}
    lines = [{"type": "line", "x0": m.x, "x1": m.x, "y0": 0, "y1": 1, "yref": "paper", "line": line} for m in marks]
    names = [
        {"x": x, "y": 1, "yref": "paper", "text": label(m.name), "showarrow": False, "yanchor": "bottom"}
        for x, m in zip(at, marks, strict=True)
    ]
    return {"shapes": lines, "annotations": names} if marks else {}


def _line(curve: Curve, palette: Palette, panel: Lines, symbol: str) -> dict[str, Any]:
    """A curve with a mark at every point, and a hole where a logarithmic axis has no place for it."""
    style = palette[curve.drawn_as]
    dash = "dash" if curve.dashed else style.dash
    triangles = {mark.x for mark in panel.marks if mark.kind == "triangle"}
    symbols = ["triangle-up" if x in triangles else symbol for x in curve.x] if triangles else symbol
    sizes = [11 if x in triangles else 5 for x in curve.x] if triangles else 6
    mode = "markers" if len(curve.x) == 1 else "lines+markers" if len(curve.x) <= MANY_POINTS else "lines"
    return {
        "type": "scatter",
        "mode": mode,
        "name": label(curve.label),
        "meta": clean(curve.label),
        "x": curve.x,
        "y": [y if y > 0 else math.nan for y in curve.y] if panel.log_y else curve.y,
        "line": {"color": style.colour, "dash": dash, "width": 2.6 if style.bold else 1.8},
        "marker": {"color": style.colour, "size": sizes, "symbol": symbols},
        "hovertemplate": "%{y:.4~g}",
    }


def _points(curve: Curve, palette: Palette) -> Iterator[dict[str, Any]]:
    """What the paper prints as hollow points, and crosses where seeds collapsed."""
    colour = palette[curve.drawn_as].colour
    common = {"type": "scatter", "mode": "markers", "meta": clean(curve.label)}
    if curve.printed:
        yield common | {
            "name": label(f"{curve.label}, printed"),
            "x": [x for x, _ in curve.printed],
            "y": [y for _, y in curve.printed],
            "marker": {"color": colour, "size": 11, "symbol": "circle-open", "line": {"width": 2}},
            "hovertemplate": "%{y:.4~g}",
        }
    if curve.flags:
        yield common | {
            "name": label(curve.label),
            "x": [flag.x for flag in curve.flags],
            "y": [flag.y for flag in curve.flags],
            "text": [label(flag.note) for flag in curve.flags],
            "marker": {"color": colour, "size": 9, "symbol": "x-thin", "line": {"width": 2.5, "color": colour}},
            "hovertemplate": "%{y:.4~g}, %{text}",
        }


def _dots(curve: Curve, place: int, many: int, palette: Palette) -> dict[str, Any]:
    """Values at named positions, which nothing lies between, with bars from low to high; side by side."""
    style = palette[curve.drawn_as]
    trace = {
        "type": "scatter",
        "mode": "markers",
        "name": label(curve.label),
        "meta": clean(curve.label),
        "x": [x + ASIDE * (place - (many - 1) / 2) / many for x in curve.x],
        "y": curve.y,
        "marker": {"color": style.colour, "size": 9 if style.bold else 8},
        "hovertemplate": "%{y:.4~g}",
    }
    if curve.low and curve.high:
        up = [high - y for y, high in zip(curve.y, curve.high, strict=True)]
        down = [y - low for y, low in zip(curve.y, curve.low, strict=True)]
        bar = {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "thickness": 1.4, "width": 0}
        trace["error_y"] = bar | {"color": style.colour}
    return trace


def _band(curve: Curve, palette: Palette) -> dict[str, Any]:
    """There along the upper edge and back along the lower."""
    edges = [p for p in zip(curve.x, curve.low, curve.high, strict=True) if all(map(math.isfinite, p))]
    return {
        "type": "scatter",
        "mode": "none",
        "name": label(curve.label),
        "meta": clean(curve.label),
        "x": [x for x, _, _ in edges] + [x for x, _, _ in reversed(edges)],
        "y": [high for _, _, high in edges] + [low for _, low, _ in reversed(edges)],
        "fill": "toself",
        "fillcolor": palette[curve.drawn_as].colour,
        "opacity": 0.14,
        "hoverinfo": "skip",
    }


def _boxes(panel: Boxes, palette: Palette) -> dict[str, Any]:
    traces = [
        {
            "type": "box",
            "name": label(group),
            "meta": clean(group),
            "x0": place,
            "y": values,
            "boxpoints": "all" if len(values) <= FEW else "outliers",
            "jitter": 0.4,
            "pointpos": 0,
            "marker": {"color": palette[group].colour, "size": 4, "opacity": 0.6},
            "line": {"color": palette[group].colour, "width": 1.6},
            "hoverinfo": "y",
        }
        for place, (group, values) in enumerate(panel.groups.items())
    ]
    across = _axis("") | _ticks(range(len(panel.groups)), panel.groups) | {"showgrid": False}
    return {"traces": traces, "layout": {"xaxis": across, "yaxis": _axis(panel.y_label), "hovermode": "closest"}}


def _surface(panel: Surface, span: tuple[float, float]) -> dict[str, Any]:
    """Seen from above: contours print, and need no graphics card."""
    trace = {
        "type": "contour",
        "x": panel.x,
        "y": panel.y,
        "z": panel.z,
        "zmin": span[0],
        "zmax": span[1],
        "colorscale": "Viridis",
        "ncontours": 16,
        "contours": {"coloring": "heatmap", "showlabels": True, "labelfont": {"size": 10, "color": "#ffffff"}},
        "line": {"width": 0.7, "color": "rgba(255,255,255,0.6)"},
        "colorbar": {"thickness": 12, "outlinewidth": 0, "title": {"text": label(panel.z_label), "side": "right"}},
        "hovertemplate": "%{z:.4~g} at (%{x:.3~g}, %{y:.3~g})<extra></extra>",
    }
    axes = {"xaxis": _axis(panel.x_label), "yaxis": _axis(panel.y_label), "hovermode": "closest"}
    return {"traces": [trace], "layout": axes}


def _axis(text: str) -> dict[str, Any]:
    return {"title": {"text": label(text)}}


def _logarithmic(values: Iterable[float]) -> dict[str, Any]:
    """Ticks at powers of ten, and not at so many that they touch."""
    shown = [math.log10(v) for v in values if v > 0 and math.isfinite(v)]
    decades = max(shown) - min(shown) if shown else 0.0
    return {"type": "log", "dtick": math.ceil(decades / 8) if decades > 1.5 else "D2", "exponentformat": "power"}


def few_ticks(panel: Lines) -> list[float]:
    """Where curves have points on a logarithmic x axis, if these are few: there ticks say more than powers of ten."""
    places = {x for curve in panel.curves for x in (*curve.x, *(flag.x for flag in curve.flags))}
    values = sorted(places) if panel.log_x else []
    return values if len(values) <= FEW_TICKS else []


def _finite(value: Any) -> Any:
    """The same with null for numbers that JSON does not have, and no more digits than can be seen."""
    match value:
        case float():
            return float(f"{value:.6g}") if math.isfinite(value) else None
        case str() | int() | None:
            return value
        case Mapping():
            return {key: _finite(inner) for key, inner in value.items()}
        case Iterable():
            return [_finite(inner) for inner in value]
        case _:
            raise TypeError(f"{value!r} is no plain data")
