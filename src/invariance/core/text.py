"""Names that others gave, as text that is safe where it is shown: terminal, Markdown, spreadsheet."""

import re
import unicodedata

MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|~#&!$])")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
FORMULA_STARTS = ("=", "+", "-", "@")


def clean(text: object) -> str:
    """One line without control characters: what others named may go to a terminal or into a cell."""
    spaced = "".join(" " if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in str(text))
    return " ".join("".join(c for c in spaced if unicodedata.category(c) not in ("Cf", "Cs", "Co", "Cn")).split())


def markdown_escape(text: object) -> str:
    """Text that Markdown shows as it is."""
    return MARKDOWN.sub(r"\\\1", clean(text))


def spreadsheet_text(text: str) -> str:
    """Text that a spreadsheet shows and does not run: a formula gets an apostrophe in front, a number does not."""
    return f"'{text}" if text.lstrip().startswith(FORMULA_STARTS) and not NUMBER.fullmatch(text.strip()) else text
