"""Names that others gave, as text that is safe where it is shown: terminal, JSON, Markdown, spreadsheet.

The one policy: what people look at is shown without the power to do anything (control characters are dropped, Markdown
and HTML are escaped, formulas get an apostrophe), what programs read (JSON, Parquet) holds every name as it is.
"""

import json
import re
import unicodedata

MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|~#&!$])")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
FORMULA_STARTS = ("=", "+", "-", "@")


INVISIBLE = ("Cf", "Cs", "Co", "Cn")
"""Categories of characters that change how others look, or that nothing can show."""


def clean(text: object) -> str:
    """One line without control characters: what others named may go to a terminal or into a cell."""
    if (given := str(text)).isprintable():
        return " ".join(given.split())
    spaced = "".join(" " if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in given)
    return " ".join("".join(c for c in spaced if unicodedata.category(c) not in INVISIBLE).split())


def printable(text: str) -> str:
    """Text without characters that command a terminal, its lines and spaces as they are."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c for c in text if c == "\n" or unicodedata.category(c) not in ("Cc", *INVISIBLE))


def json_escape(text: str) -> str:
    """JSON, the same value, whose control characters are written as escapes."""
    return "".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text)


def markdown_escape(text: object) -> str:
    """Text that Markdown shows as it is."""
    return MARKDOWN.sub(r"\\\1", clean(text))


def spreadsheet_text(text: str) -> str:
    """Text that a spreadsheet shows and does not run: a formula gets an apostrophe in front, a number does not."""
    return f"'{text}" if text.lstrip().startswith(FORMULA_STARTS) and not NUMBER.fullmatch(text.strip()) else text
