"""The Content-Security-Policy of a page: its own scripts and style sheets, and no others that a name may hold."""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256

FIXED = ("default-src 'none'", "base-uri 'none'", "form-action 'none'", "img-src data: blob:")
ATTRIBUTES = "style-src-attr 'unsafe-inline'"
"""plotly.js sets attributes of style, which can load nothing here."""


def policy(scripts: Sequence[str], sheets: Sequence[str]) -> str:
    """What a browser may run and apply, by the hash of its text; plotly.js fills an empty style sheet rule by rule."""
    allowed = {"script-src": scripts, "style-src-elem": (*sheets, "")}
    hashes = [f"{name} {' '.join(map(_hash, texts))}" for name, texts in allowed.items()]
    return "; ".join((*FIXED, *hashes, ATTRIBUTES))


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
