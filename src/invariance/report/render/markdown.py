"""Artefacts as GitHub-flavoured Markdown."""

from collections.abc import Iterator, Sequence

from invariance.core.artefacts import Artefact
from invariance.core.text import markdown_escape as escape
from invariance.report.render.text_tables import TextTable, text_tables


def markdown(artefact: Artefact, picture: str = "") -> str:
    """Heading, caption, tables and notes; ``picture`` is the file that shows a figure."""
    parts = [f"## {escape(artefact.full_title)}", escape(artefact.caption)]
    parts += [f"![{escape(artefact.full_title)}](<{picture}>)"] if picture else []
    for table in text_tables(artefact):
        first, *names = table.names()
        shared = table.shared()
        title = ": ".join(filter(None, (table.title, shared.rstrip(" ·,"))))
        parts += [f"**{escape(title)}**"] if title else []
        parts.append("\n".join(_table(table, [first, *(name.removeprefix(shared) for name in names)])))
        parts += [f"[{mark}] {escape(note)}" for mark, note in table.footnotes]
    parts += [escape(note) for note in artefact.notes]
    parts += [f"*{escape(artefact.provenance)}*"] if artefact.provenance else []
    return "\n\n".join(filter(None, parts)) + "\n"


def _table(table: TextTable, names: Sequence[str]) -> Iterator[str]:
    yield _line([escape(name) for name in names])
    yield _line(["--:" if numeric else "---" for numeric in table.numeric])
    for row in table.rows:
        yield _line([escape(text) for text in row])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
