"""Small pieces of Markdown."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from invariance.core.text import markdown_escape
from invariance.report.render.formulas import as_latex
from invariance.report.render.latex import SYMBOLS


def table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """A table whose last ``numbers`` columns hold numbers; cells are Markdown already."""
    marks = ["---"] * (len(header) - numbers) + ["--:"] * numbers
    lines = [list(header), marks, *(list(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def numbered(points: Iterable[str]) -> str:
    """A numbered list of plain sentences."""
    return "\n".join(f"{i}. {markdown_escape(point)}" for i, point in enumerate(points, 1))


def value(given: Any) -> str:
    """A field's value as code; floats without digits that nobody reads."""
    shown = f"{given:.6g}" if isinstance(given, float) else str(given)
    return code(shown)


def code(text: str) -> str:
    """Text as code inside a table, where a bar would end the cell."""
    return "`" + text.replace("|", "\\|") + "`"


def fields(values: Mapping[str, Any]) -> str:
    """Fields with their values, joined by commas."""
    return ", ".join(code(f"{name} = {f'{v:.6g}' if isinstance(v, float) else v}") for name, v in values.items())


def tex(formula: str) -> str:
    """A formula in plain letters as LaTeX, with operators and what is said in words set as such."""
    text = as_latex(formula.replace("~", "∼"), SYMBOLS | {"∼": r"\sim", "*": "^{*}"})
    text = re.sub(r"\\mathrm\{(mean|Var|argmin|loss)\}", r"\\operatorname{\1}", text)
    text = re.sub(r"\\mathrm\{(at|from|on|inputs|without|their|spurious|part)\} ?", r"\\text{ \1 }", text)
    text = re.sub(r"(\w)\u0303", r"\\tilde{\1}", text)
    return re.sub(r"\\mathrm\{(min|max|log)\}", r"\\\1", text)


def math(formula: str) -> str:
    """A formula in plain letters as a displayed one; where it has several parts, each has a line."""
    parts = [part.strip() for part in re.split(r", {2,}", formula)]
    lines = ",\\\\\n".join(f"&{tex(part)}" for part in parts)
    return f"$$\n\\begin{{aligned}}\n{lines}\n\\end{{aligned}}\n$$"


def page(title: str, *parts: str) -> str:
    """A page with its title; empty parts are left out."""
    return "\n\n".join([f"# {title}", *filter(None, parts)]) + "\n"
