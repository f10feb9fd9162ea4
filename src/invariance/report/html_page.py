"""A page as HTML that needs nothing but itself; long parts are packed, and cost nothing until they are opened."""

import base64
import gzip
import json
import re
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from invariance.core.artefacts import Artefact, Figure, Formula, Lines, Table
from invariance.core.text import printable
from invariance.report.page import Block, Page
from invariance.report.policy import policy
from invariance.report.render.cells import cell, words
from invariance.report.render.charts import charts, embedded, explained, legend
from invariance.report.render.formulas import as_html
from invariance.report.render.palette import Palette, palette
from invariance.report.render.sheets import is_empty, sheets

NUMBERS = 400
"""Numbers of a figure up to which they are also listed beneath it."""
MAX_LINES = 2000
"""Lines of a table that a page shows."""
SEPARATOR = "|"
"""Between the options that a version is shown for."""
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]\b")
"""An option of the command line in a sentence."""


def render(page: Page) -> str:
    """The page with style, script, charts and plotly.js inside, and no address in it that a browser would ask."""
    here = files("invariance.report")
    own = {name: Markup(here.joinpath(f"page.{name}").read_text(encoding="utf-8")) for name in ("css", "js")}  # noqa: S704
    plotly = here.joinpath("plotly-cartesian.min.js.gz").read_bytes()
    rules = policy([gzip.decompress(plotly).decode(), own["js"]], [own["css"]])
    template = _environment(palette(page.every())).get_template("page.html.jinja")
    return template.render(page=page, plotly=base64.b64encode(plotly).decode(), policy=rules, **own)


def _environment(colours: Palette) -> Environment:
    """Templates in which a method is drawn alike everywhere."""
    environment = Environment(
        loader=PackageLoader("invariance", "report"),
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,  # names without control characters
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"cell": cell, "words": words}
    environment.filters |= {"shortened": _shortened, "prose": _prose}
    environment.filters["packed"] = lambda text: packed(str(text))
    environment.globals |= {"sheets": sheets, "caption": _caption, "view": partial(_view, colours)}
    environment.globals["versions"] = lambda block: _versions(block, environment)
    return environment


def _shortened(table: Table) -> Table:
    """The table with no more lines than a page shows, and how many are left out."""
    if (more := len(table.lines) - MAX_LINES) <= 0:
        return table
    note = f"Not listed: {more:,} more lines. Those of studies are in the files of invariance report --format csv."
    return replace(table, lines=table.lines[:MAX_LINES], notes=(note, *table.notes))


def packed(text: str) -> str:
    """Compressed, in letters that can stand in a page."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def _versions(block: Block, environment: Environment) -> str:
    """All versions of a block but the first, packed: each piece of HTML once, and which options show which."""
    show: Any = environment.get_template("artefacts.html.jinja").module
    pieces = {str(show.all_of(block.first)): -1}
    shown = {}
    for options, version in block.versions.items():
        text = str(show.all_of(version))
        shown[SEPARATOR.join(options)] = pieces.setdefault(text, len(pieces) - 1)
    return packed(json.dumps({"pieces": list(pieces)[1:], "shown": shown}, ensure_ascii=False))


def _view(colours: Palette, figure: Figure) -> dict[str, Any]:
    """What the template needs of a figure."""
    numbers = sheets(figure)
    few = sum(len(sheet.rows) * len(sheet.columns) for sheet in numbers) <= NUMBERS
    return {
        "empty": is_empty(figure),
        "legend": legend(figure, colours),
        "explained": explained(figure),
        "panels": [
            {"title": panel.title, "chart": Markup(embedded(chart))}  # noqa: S704
            for panel, chart in zip(figure.panels, charts(figure, colours), strict=True)
        ],
        "numbers": numbers if few else (),
    }


def _prose(text: str) -> Markup:
    """Sentences, in which options of the command line are code."""
    return Markup(OPTION.sub(r"<code>\g<0></code>", str(escape(printable(text)))))  # noqa: S704 - escaped first


def _caption(artefact: Artefact) -> Markup:
    """The caption, in which the formulas on the axes of a figure are typeset as they are there."""
    text = str(_prose(artefact.caption))
    for panel in artefact.panels if isinstance(artefact, Figure) else ():
        if isinstance(panel, Lines) and isinstance(panel.y_label, Formula):
            text = text.replace(str(escape(panel.y_label)), as_html(panel.y_label))
    return Markup(text)  # noqa: S704 - escaped first
