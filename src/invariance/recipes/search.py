"""Where hyper-parameters are looked for: frozen, printable ranges, written on the command line as they are printed."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, final

from pydantic import TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from invariance.core.errors import BadValue
from invariance.core.fields import STRICT, Positive

Value = bool | int | float | str | None


def written(value: Any) -> str:
    """A value as people type it and ``--set`` reads it: 1e-05, split, true, null."""
    if isinstance(value, str):
        return value
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else json.dumps(value)


@dataclass(frozen=True, config=STRICT)
class SearchRange(ABC):
    """The values that a field may take in a search; printed as ``kind:part:part``."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def parts(self) -> tuple[Value, ...]:
        """Its fields: two ends, or all values."""

    def __str__(self) -> str:
        return ":".join([self.kind, *map(written, self.parts)])

    @abstractmethod
    def __contains__(self, value: object) -> bool:
        """Whether a value may be taken."""


@dataclass(frozen=True, config=STRICT)
class NumberRange(SearchRange):
    """Everything from ``low`` to ``high``, both included."""

    low: float
    high: float

    @model_validator(mode="after")
    def _ordered(self) -> "NumberRange":
        if not self.low < self.high:
            raise ValueError("the first end must be lower than the second")
        return self

    @property
    def parts(self) -> tuple[Value, ...]:
        return self.low, self.high

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and self.low <= value <= self.high


@final
@dataclass(frozen=True, config=STRICT)
class Range(NumberRange):
    """Numbers, all equally likely at first."""

    kind: ClassVar[str] = "uniform"


@final
@dataclass(frozen=True, config=STRICT)
class LogRange(NumberRange):
    """Positive numbers whose logarithms are equally likely at first."""

    kind: ClassVar[str] = "log"

    low: Positive
    high: Positive


@final
@dataclass(frozen=True, config=STRICT)
class IntRange(NumberRange):
    """Whole numbers."""

    kind: ClassVar[str] = "int"

    low: int
    high: int


@final
@dataclass(frozen=True, config=STRICT)
class OneOf(SearchRange):
    """One of some values: names, numbers, true or false, or null."""

    kind: ClassVar[str] = "one-of"

    values: tuple[Value, ...]

    @property
    def parts(self) -> tuple[Value, ...]:
        return self.values

    def __contains__(self, value: object) -> bool:
        return value in self.values


SearchSpace = Mapping[str, SearchRange]
"""Ranges by field, as ``method.gamma`` or ``recipe.lr``."""
KINDS: dict[str, type[Range | LogRange | IntRange | OneOf]] = {
    cls.kind: cls for cls in (Range, LogRange, IntRange, OneOf)
}


def reaching(each: SearchRange, value: Any) -> SearchRange:
    """The range, widened where it does not hold ``value``; a logarithmic one goes a factor of ten beyond it.

    Example:
        >>> print(reaching(IntRange(8, 32), 66), reaching(LogRange(10.0, 1e6), 0.1))
        int:8:66 log:0.01:1e+06

    """
    match each:
        case _ if value in each:
            return each
        case OneOf(values):
            return OneOf((*values, value))
        case LogRange(low, high) if value > 0:
            return LogRange(value / 10, high) if value < low else LogRange(low, 10 * value)
        case Range(low, high) | IntRange(low, high):
            return type(each)(min(low, value), max(high, value))
        case _:
            return each


def parse_search(settings: list[str]) -> dict[str, SearchRange]:
    """``["recipe.lr=log:1e-3:1e-1", "method.estimator=one-of:squared:split"]`` as ranges by field."""
    return {name.strip(): _range(text, s) for s in settings for name, _, text in [s.partition("=")]}


def _range(text: str, setting: str) -> SearchRange:
    kind, *parts = (part.strip() for part in text.split(":"))
    values = [_value(part) for part in parts]
    fields: dict[str, Any] = (
        {"values": values} if kind == OneOf.kind else dict(zip(("low", "high"), values, strict=False))
    )
    if kind not in KINDS or not parts or (kind != OneOf.kind and len(parts) != 2):
        forms = "log:LOW:HIGH, uniform:LOW:HIGH, int:LOW:HIGH or one-of:A:B:…"
        raise BadValue(
            f"cannot read {setting!r}; write SECTION.FIELD= and {forms}, for example recipe.lr=log:1e-4:1e-2"
        )
    try:
        return TypeAdapter[SearchRange](KINDS[kind]).validate_python(fields)
    except ValidationError as error:
        raise BadValue.of(error, f"range {setting!r}") from None


def _value(text: str) -> Value:
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    return value if isinstance(value, Value) else text
