"""Kinds of values that fields take, checked when one is made."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter

STRICT = ConfigDict(extra="forbid")
"""For every class with fields: an unknown field is an error."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


_adapters: dict[type, TypeAdapter[Any]] = {}


def adapter(kind: type) -> TypeAdapter[Any]:
    """What checks and dumps the values of a class, made once: a page of studies has thousands of them."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def dumped(value: Any) -> dict[str, Any]:
    """The fields of a value as plain data.

    Fields that a class lists as ``later_fields`` are left out at their default: runs that were stored before there
    were such fields keep their keys.
    """
    plain: dict[str, Any] = adapter(type(value)).dump_python(value, mode="json")
    later = getattr(value, "later_fields", ())
    kept = [f.name for f in fields(value) if f.name not in later or getattr(value, f.name) != f.default]
    return {name: dumped(own) if is_dataclass(own := getattr(value, name)) else plain[name] for name in kept}


def flattened(plain: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of nested plain data under its dotted name, such as ``recipe.schedule.kind``."""
    for name, value in plain.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def finite(plain: Any) -> Any:
    """Plain data with None for the numbers that JSON does not have: infinite ones, and those that are none."""
    match plain:
        case float():
            return plain if isfinite(plain) else None
        case Mapping():
            return {name: finite(value) for name, value in plain.items()}
        case list() | tuple():
            return [finite(value) for value in plain]
        case _:
            return plain


def expanded(path: str) -> Path:
    """A path as people write it, with their home for ~; a ~ of an unknown user stays as it is."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
