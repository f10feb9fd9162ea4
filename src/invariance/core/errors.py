"""Everything the package raises on purpose. Each message is one line: what was got, what was wanted, what to do.

InvarianceError
├── UnknownName      a method, data set, recipe or field that does not exist (says what was probably meant)
├── BadValue         a value or an input that cannot be used
├── DataError        a data file that is missing, corrupt or cannot be fetched
├── StoreError       a store of runs that cannot be opened, read or written
├── Diverged         training left the finite numbers
└── RankLost         another process of the same training ended
"""

from collections.abc import Iterable
from difflib import get_close_matches

from pydantic import ValidationError

from invariance.core.text import clean

MAX_SHOWN, MAX_MESSAGE = 200, 1500
"""Characters of a value that a message shows, and of a message; of a longer one its two ends are shown."""


def shortened(value: object) -> str:
    """A value as messages show it."""
    text = str(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


class InvarianceError(Exception):
    """Base of all errors of this package: one line, whatever the names and values in it hold."""

    def __init__(self, message: object = "") -> None:
        text = clean(message)
        super().__init__(
            text if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE // 2]} … {text[-MAX_MESSAGE // 3 :]}"
        )


class UnknownName(InvarianceError, KeyError):
    """A name that is not in the list of names it must come from."""

    @classmethod
    def of(cls, kind: str, got: str, known: Iterable[str]) -> "UnknownName":
        """Say what was probably meant."""
        names = sorted(known)
        got = shortened(got)
        close = get_close_matches(got.lower().replace("_", "-"), names, n=1, cutoff=0.5)
        close = close or get_close_matches(got.lower(), names, n=1, cutoff=0.5)
        hint = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(names)}."
        return cls(f"no {kind} is called {got!r}. {hint}")

    def __str__(self) -> str:
        return str(self.args[0])


class BadValue(InvarianceError, ValueError):
    """A value that was understood and cannot be used."""

    @classmethod
    def of(cls, error: ValidationError, what: str) -> "BadValue":
        """Turn pydantic's many lines into one."""
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        return cls(f"{what}: {field or 'value'} = {shortened(repr(first['input']))} cannot be used: {message}")


class DataError(InvarianceError):
    """Data that is not there, or not what it should be."""


class StoreError(InvarianceError):
    """A store that is not there, not ours, or cannot be written."""


class Diverged(InvarianceError):
    """Training produced a number that is not finite."""


class RankLost(InvarianceError):
    """Another of the processes that train one model together has ended."""
