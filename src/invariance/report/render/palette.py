"""A colour for every name that is drawn, the same one wherever it is drawn."""

from collections.abc import Iterable, Iterator
from itertools import cycle, product
from typing import Literal, NamedTuple

from invariance.core.artefacts import Artefact, Boxes, Figure, Lines

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee7733", "#009988", "#cc3311")
INK = "ink"
"""The colour of text: black on white paper, white on black."""

Dash = Literal["solid", "dash", "dot", "dashdot"]


class Style(NamedTuple):
    """How a name is drawn."""

    colour: str
    dash: Dash = "solid"
    bold: bool = False


Palette = dict[str, Style]

REFERENCES: Palette = {"ERM": Style(INK, bold=True), "GrayScale": Style("#888888", "dash", bold=True)}
"""The two that all others are read against."""


def palette(artefacts: Iterable[Artefact]) -> Palette:
    """A style for every curve and group in these artefacts, by the order in which they come."""
    dashes: tuple[Dash, ...] = ("solid", "dot", "dashdot", "dash")
    free = cycle(Style(colour, dash) for dash, colour in product(dashes, COLOURS))
    chosen: Palette = {}
    for label in dict.fromkeys(label for artefact in artefacts for label in _labels(artefact)):
        chosen[label] = REFERENCES[label] if label in REFERENCES else next(free)
    return chosen


def _labels(artefact: Artefact) -> Iterator[str]:
    if isinstance(artefact, Figure):
        for panel in artefact.panels:
            match panel:
                case Lines():
                    yield from (curve.label for curve in panel.curves)
                case Boxes():
                    yield from panel.groups
