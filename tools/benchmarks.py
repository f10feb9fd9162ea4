"""Write ``docs/benchmarks.md`` from what the benchmarks have measured.

``docs/benchmarks.template.md`` holds what a person writes. A placeholder ``{{ step-avx512 }}`` stands for a measured
table, `docs/benchmarks/step-avx512.json`, with the processor, the date and the load under which it was measured.
"""

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
PAGE, TEMPLATE, FIGURES = "benchmarks.md", "benchmarks.template.md", "benchmarks"
PLACE = re.compile(r"\{\{ *(.+?) *\}\}")
GENERATED = f"<!-- Written by 'make bench' from {FIGURES}/ and {TEMPLATE}: change that, not this. -->\n\n"


def cell(value: Any) -> str:
    """A value as people read it."""
    if value is None:
        return ""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    if 0 < value < 1e-3:
        return f"{value:.0e}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"


def table(figures: dict[str, Any]) -> str:
    """A measured table in Markdown, and how it was measured."""
    rows = figures["rows"]
    columns = list(rows[0])
    left = [any(isinstance(row[name], str) for row in rows) for name in columns]
    rules = ["---" if text else "--:" for text in left]
    lines = [columns, rules, *([cell(row[name]) for name in columns] for row in rows)]
    when = date.fromisoformat(figures["date"])
    how = (
        f"{figures['processor']}, {figures['cores']} cores, {figures['vectors']}, torch {figures['torch']}, "
        f"{when.day} {when:%B %Y}, load {figures['load']:g} at the end. {figures['note']}"
    )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n*{how.strip()}*"


def page(docs: Path = DOCS) -> str:
    """The whole page."""

    def shown(place: re.Match[str]) -> str:
        return table(json.loads((docs / FIGURES / f"{place[1]}.json").read_text(encoding="utf-8")))

    return GENERATED + PLACE.sub(shown, (docs / TEMPLATE).read_text(encoding="utf-8"))


if __name__ == "__main__":
    (DOCS / PAGE).write_text(page(), encoding="utf-8")
