"""A colour and a dash for every method, the same wherever it is drawn, and a symbol for each of its curves."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from invariance.core.artefacts import Artefact, Boxes, Figure, Lines

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee7733", "#009988", "#cc3311")
INK = "ink"
"""The colour of text: black on white paper, white on black."""

Dash = Literal["solid", "dash", "dot", "dashdot"]
DASHES: tuple[Dash, ...] = ("solid", "dash", "dot", "dashdot")

CURVE_SYMBOLS = {"circle": "●", "square": "■", "diamond": "◆", "pentagon": "⬟", "hexagon": "⬢", "star": "★"}
"""What tells curves of one method apart, as plotly calls it and as a letter."""


class Style(NamedTuple):
    """How a method is drawn."""

    colour: str
    dash: Dash = "solid"
    bold: bool = False


Palette = dict[str, Style]

REFERENCES: Palette = {"ERM": Style(INK, bold=True), "GrayScale": Style("#888888", "dash", bold=True)}
"""The two that all others are read against."""


def palette(artefacts: Iterable[Artefact]) -> Palette:
    """A style for every method and group in these artefacts, by the order in which they come.

    No two of the first 36 have both colour and dash in common.
    """
    chosen: Palette = {}
    drawn = dict.fromkeys(name for artefact in artefacts for name in _names(artefact))
    for place, name in enumerate(name for name in drawn if name not in REFERENCES):
        chosen[name] = Style(COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)])
    return chosen | {name: REFERENCES[name] for name in drawn if name in REFERENCES}


def symbols(figure: Figure) -> dict[str, str]:
    """By label, a symbol that no other curve of the same method has in this figure."""
    chosen: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for curve in (curve for panel in figure.panels if isinstance(panel, Lines) for curve in panel.curves):
        if curve.label not in chosen:
            chosen[curve.label] = list(CURVE_SYMBOLS)[seen[curve.drawn_as] % len(CURVE_SYMBOLS)]
            seen[curve.drawn_as] += 1
    return chosen


def _names(artefact: Artefact) -> Iterator[str]:
    if isinstance(artefact, Figure):
        for panel in artefact.panels:
            match panel:
                case Lines():
                    yield from (curve.drawn_as for curve in panel.curves)
                case Boxes():
                    yield from panel.groups
