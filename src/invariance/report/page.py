"""The report as one page: everything it shows as a value, and that value as HTML that needs nothing but itself."""

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from invariance.core.artefacts import Artefact, Figure
from invariance.report.render.charts import charts, embedded, legend
from invariance.report.render.palette import Palette, palette
from invariance.report.render.sheets import is_empty, sheets

ATTRIBUTES = "style-src-attr 'unsafe-inline'"
NUMBERS = 400
"""Numbers of a figure up to which they are also listed beneath it."""


@dataclass(frozen=True)
class Chapter:
    """A part of a page under a heading of its own: sentences first, then the tables and figures they rest on.

    ``left_out`` says in a sentence what was too much to show; empty where nothing was. ``cards`` shows each line of a
    table as a card, for tables with long cells or many columns.
    """

    name: str
    title: str
    words: tuple[str, ...] = ()
    artefacts: tuple[Artefact, ...] = ()
    left_out: str = ""
    cards: bool = False


@dataclass(frozen=True)
class Page:
    """A report before it is typeset. ``facts`` are single numbers with their names; ``summary`` comes right after."""

    title: str
    note: str
    made: str
    facts: tuple[tuple[str, str], ...]
    summary: tuple[Artefact, ...] = ()
    chapters: tuple[Chapter, ...] = ()
    citations: tuple[str, ...] = ()

    def artefacts(self) -> Iterator[Artefact]:
        """All tables and figures."""
        yield from self.summary
        for chapter in self.chapters:
            yield from chapter.artefacts


def render(page: Page) -> str:
    """The page as HTML: style, script, charts and plotly.js inside, no address in it that a browser would ask."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    here = files("invariance.report")
    colours = palette(page.artefacts())
    environment.filters["formula"] = _formula
    environment.globals["sheets"] = sheets
    environment.globals["view"] = lambda figure: _view(figure, colours)
    own = {name: Markup(here.joinpath(f"page.{name}").read_text(encoding="utf-8")) for name in ("css", "js")}  # noqa: S704
    template = environment.from_string(here.joinpath("page.html.jinja").read_text(encoding="utf-8"))
    plotly = Markup(get_plotlyjs().replace("\r\n", "\n"))  # noqa: S704 - as a browser reads it
    policy = _policy([plotly, own["js"]], [own["css"], ""])
    return template.render(page=page, plotly=plotly, policy=policy, map_sheet=_map_sheet(plotly), **own)


def _map_sheet(plotly: str) -> str:
    """The name of the style sheet that plotly.js adds for maps, unless there is one already; there are no maps here."""
    sheet = re.search(r'getElementById\("([0-9a-f]{64})"\)', plotly)
    return sheet[1] if sheet else ""


def _policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """A Content-Security-Policy: these scripts and style sheets and no others, whatever a name on the page holds.

    plotly.js makes an empty style sheet that it fills rule by rule, and sets attributes of style.
    """
    allowed = {"script-src": scripts, "style-src-elem": styles}
    hashes = [f"{name} {' '.join(map(_hash, texts))}" for name, texts in allowed.items()]
    return "; ".join(
        ["default-src 'none'", "base-uri 'none'", "form-action 'none'", "img-src data: blob:", *hashes, ATTRIBUTES]
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _formula(text: str) -> Markup:
    """R^e and min_{w,θ} as raised and lowered letters."""
    lowered = re.sub(r"_(?:\{([^{}]*)\}|(\w+))", r"<sub>\1\2</sub>", str(escape(text)))
    return Markup(re.sub(r"\^(?:\{([^{}]*)\}|(\w+))", r"<sup>\1\2</sup>", lowered))  # noqa: S704 - escaped first


def _view(figure: Figure, colours: Palette) -> dict[str, Any]:
    """What the template needs of a figure."""
    numbers = sheets(figure)
    few = sum(len(sheet.rows) * len(sheet.columns) for sheet in numbers) <= NUMBERS
    return {
        "empty": is_empty(figure),
        "legend": legend(figure, colours),
        "panels": [
            {"title": panel.title, "chart": Markup(embedded(chart))}  # noqa: S704
            for panel, chart in zip(figure.panels, charts(figure, colours), strict=True)
        ],
        "numbers": numbers if few else (),
    }
