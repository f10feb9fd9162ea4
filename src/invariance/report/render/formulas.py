"""Formulas in plain letters, such as R^e and min_{w,θ}, as HTML and as LaTeX."""

import re
from html import escape

RAISED = re.compile(r"([_^])(?:\{([^{}]*)\}|(\w+))")
WORD = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{2,}")


def as_html(text: str) -> str:
    """With raised and lowered letters; everything else is escaped."""

    def element(found: re.Match[str]) -> str:
        tag = "sub" if found[1] == "_" else "sup"
        return f"<{tag}>{found[2] or found[3]}</{tag}>"

    return RAISED.sub(element, escape(text, quote=False))


def as_latex(text: str, symbols: dict[str, str]) -> str:
    """For math mode, by these commands for symbols; words are set upright."""
    upright = WORD.sub(lambda word: rf"\mathrm{{{word[0]}}}", text)
    grouped = RAISED.sub(lambda found: f"{found[1]}{{{found[2] or found[3]}}}", upright)
    return "".join(f"{symbols[c]} " if c in symbols else c for c in grouped)
