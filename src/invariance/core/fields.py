"""Kinds of values that fields take, checked when one is made."""

from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field

STRICT = ConfigDict(extra="forbid")
"""For every class with fields: an unknown field is an error."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


def expanded(path: str) -> Path:
    """A path as people write it, with their home for ~; a ~ of an unknown user stays as it is."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
