"""The places of a sheet as HTML: in Python, since a page may have a hundred thousand of them."""

from markupsafe import Markup, escape

from invariance.core.text import printable
from invariance.report.render.formulas import as_html
from invariance.report.render.sheets import Entry


def cell(entry: Entry, numeric: bool) -> Markup:
    """A cell of a table."""
    kind = f' class="number{" clear" if entry.clear else ""}"' if numeric else ""
    value = "" if entry.value is None else f' data-value="{entry.value}"'
    text = _text(entry.text) if numeric else f'<span class="words">{words(entry)}</span>'
    mark = f"<sup>{_text(entry.mark)}</sup>" if entry.mark else ""
    return Markup(f"<td{kind}{value}>{text}{mark}{_beside(entry)}</td>")  # noqa: S704 - escaped, part by part


def words(entry: Entry) -> Markup:
    """Its text: a formula typeset, sentences as a list."""
    if entry.sentences:
        items = "".join(f"<li>{_text(sentence)}</li>" for sentence in entry.sentences)
        return Markup(f"<ol>{items}</ol>")  # noqa: S704 - escaped, part by part
    return Markup(as_html(entry.text) if entry.formula else _text(entry.text))  # noqa: S704 - both escape


def _beside(entry: Entry) -> str:
    """The printed number, the difference from it, and what a mean rests on."""
    printed = f'<span class="beside">{_text(entry.printed)}</span>' if entry.printed else ""
    difference = f'<span class="difference">Δ {_text(entry.difference)}</span>' if entry.difference else ""
    seeds = f'<span class="seeds">{difference}{_text(entry.seeds)}</span>' if difference or entry.seeds else ""
    collapsed = f'<span class="seeds warn">{_text(entry.collapsed)}</span>' if entry.collapsed else ""
    return printed + seeds + collapsed


def _text(text: str) -> str:
    """Without control characters, escaped."""
    return str(escape(printable(text)))
