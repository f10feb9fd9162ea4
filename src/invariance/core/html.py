"""Small tables and bars of HTML, as notebooks show objects and progress; every name in them is escaped."""

import math
from collections.abc import Iterable, Sequence
from html import escape

from invariance.core.text import clean

PADDING = "padding: 2px 12px 2px 0"
NUMBER = f' style="text-align: right; {PADDING}"'
WORDS = f' style="text-align: left; {PADDING}"'


def html_table(
    header: Sequence[str], rows: Iterable[Sequence[str | float]], *, title: str = "", notes: str = ""
) -> str:
    """A table with a title above and notes below; numbers have three digits and stand to the right."""
    head = "".join(f"<th{WORDS}>{_text(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    caption = f'<caption style="caption-side: top; text-align: left"><b>{_text(title)}</b></caption>' if title else ""
    below = f"<p><small>{_text(notes)}</small></p>" if notes else ""
    return f"<div><table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}</div>"


def html_bar(label: str, done: float, total: float | None, state: str) -> str:
    """A progress bar between a label and words on its state; without a total, how much is done is not known."""
    extent = f' value="{done:g}" max="{total:g}"' if total else ""
    return f"<div>{_text(label)} <progress{extent}></progress> {_text(state)}</div>"


def _cell(value: str | float) -> str:
    if isinstance(value, str):
        return f"<td{WORDS}>{_text(value)}</td>"
    return f"<td{NUMBER}>{'' if math.isnan(value) else f'{value:.3f}'}</td>"


def _text(value: str) -> str:
    return escape(clean(value))
