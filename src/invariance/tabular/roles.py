"""The role of each column: guessed from its name and values, unless the user states it."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from invariance.core.errors import BadValue, DataError
from invariance.tabular.cells import MAX_FLOAT32
from invariance.tabular.dates import FORMATS, find_format
from invariance.tabular.profile import ColumnProfile
from invariance.tabular.source import Source, TableSource, short

Kind = Literal["label", "environment", "numeric", "categorical", "date", "text", "vector", "id", "ignored"]
INPUTS: tuple[Kind, ...] = ("numeric", "categorical", "date", "text", "vector")
"""Columns of these kinds are predicted from."""
STATED: tuple[Kind, ...] = ("numeric", "categorical", "date", "text", "id", "ignored")
"""Kinds that the user may state."""

LABELS = ("label", "target", "class", "outcome", "y")
ENVIRONMENTS = (
    *("environment", "env", "site", "hospital", "center", "centre", "domain", "location", "clinic", "batch", "group"),
)
IDS = ("id", "ids", "uuid", "key", "identifier")
"""The last word of the name of a column of identifiers, which are numbers or names that hardly repeat."""
MIN_ROWS = 20
"""With at least this number of rows, a column of different values is taken for identifiers or row numbers."""
MAX_MIXED_VALUES = 20
"""A column that mixes numbers and words is categorical up to this number of different values."""
WRITTEN = re.compile(r"[$€£]? ?[+-]?(\d{1,3}(,\d{3})+|\d+)([.,]\d+)? ?[%$€£]?$")
"""A number as people write it: with a decimal comma, thousands apart, a percent sign or a currency."""
WHOLE = re.compile(r"[+-]?\d+$")
MAX_COUNTED_VALUES = 20
"""The number of different values of a numeric column is shown up to this number."""


@dataclass(frozen=True)
class Role:
    """What a column is used for, and why."""

    name: str
    kind: Kind
    why: str = ""


def label_and_environment(
    source: TableSource, label: str | None, environment: str | None, taken: Collection[str] = ()
) -> tuple[str, str | None]:
    """The columns of the label and the environment: those that the user names, else those with a usual name.

    Columns in ``taken`` have another role.
    """
    target = source.require(label) if label else _usual(set(source.columns) - set(taken), LABELS)
    if target is None:
        columns = ", ".join(short(name, quoted=False) for name in source.columns[:20])
        raise BadValue(f"which column of {source.path} is the label? Name it with --label; the columns are {columns}")
    free = set(source.columns) - {target, *taken}
    domain = source.require(environment) if environment else _usual(free, ENVIRONMENTS)
    if domain == target:
        raise BadValue(f"{short(target)} cannot be both label and environment; name two columns")
    return target, domain


def assign_roles(
    profiles: Sequence[ColumnProfile],
    label: str | None,
    environment: str | None,
    stated: Mapping[str, Kind] | None = None,
) -> tuple[Role, ...]:
    """A role for every column. One that cannot be used as it stands is refused, unless its role is ``stated``."""
    fixed = _fixed(profiles, label, environment, stated or {})
    _refuse([profile for profile in profiles if profile.name not in fixed])
    roles = [fixed.get(profile.name) or _guess(profile) for profile in profiles]
    if not any(role.kind in INPUTS for role in roles):
        raise DataError(
            f"no column is left to predict {short(label) if label else 'the label'} from: {_summary(roles)}; "
            "name a column to use with --numeric or --categorical"
        )
    return tuple(roles)


def _fixed(
    profiles: Sequence[ColumnProfile], label: str | None, environment: str | None, stated: Mapping[str, Kind]
) -> dict[str, Role]:
    """The roles that need no guess; a column of neither numbers nor names nor dates can only be ignored."""
    fixed: dict[str, Role] = {}
    for profile in profiles:
        kind = stated.get(profile.name)
        if kind and (kind in ("ignored", "id") or not profile.unusable):
            fixed[profile.name] = Role(profile.name, kind, "set by you")
    fixed |= {environment: Role(environment, "environment")} if environment else {}
    return fixed | ({label: Role(label, "label")} if label else {})


def stated_roles(source: Source, **columns: Collection[str] | None) -> dict[str, Kind]:
    """The roles that the user states, by column; columns are given one by one or joined by commas."""
    stated: dict[str, Kind] = {}
    for kind in STATED:
        for given in columns.get(kind) or ():
            for name in [given] if given in source.columns else [part.strip() for part in given.split(",")]:
                if stated.setdefault(source.require(name), kind) != kind:
                    raise BadValue(f"{short(name)} cannot be both {stated[name]} and {kind}; choose one")
    return stated


def _usual(columns: Iterable[str], known: Sequence[str]) -> str | None:
    """The only column with one of the usual names; None where there is none, or several."""
    matches = [name for name in columns if name.lower() in known]
    return matches[0] if len(matches) == 1 else None


def _guess(profile: ColumnProfile) -> Role:
    name, distinct = profile.name, len(profile.values)
    if not profile.present:
        return Role(name, "ignored", "no value in any row")
    if profile.width:
        return Role(name, "vector", f"lists of {profile.width} numbers")
    if profile.is_constant:
        return Role(name, "ignored", "the same in every row")
    unique = profile.truncated or (profile.present >= MIN_ROWS and distinct > 0.9 * profile.present)
    if unique and re.split(r"[^a-z]+", name.lower())[-1] in IDS:
        return Role(name, "id", "nearly every row has its own value; not used")
    if profile.is_numeric:
        if profile.consecutive and profile.rows == profile.finite >= MIN_ROWS:
            return Role(name, "id", "row numbers; not used")
        own = unique and not profile.truncated and all(map(WHOLE.match, profile.values))
        return Role(
            name, "numeric", _span(profile) + (", each row its own; --id if it is an identifier" if own else "")
        )
    if format_ := find_format(profile.values):
        return Role(name, "date", f"dates, read as {FORMATS[format_]}")
    if profile.is_free_text:
        example = short(next(iter(profile.values)), 30)
        return Role(name, "text", f"free text, such as {example}, as hashed word counts")
    if unique:
        return Role(name, "id", "nearly every row has its own value; not used")
    return Role(name, "categorical", f"{distinct} different values")


def _refusal(profile: ColumnProfile) -> str:
    """Why a column cannot be used as it stands; empty if it can."""
    if profile.unusable and not profile.width:
        return profile.unusable
    if profile.is_numeric or profile.is_free_text or find_format(profile.values):
        return ""
    if len(profile.values) <= MAX_MIXED_VALUES:
        return ""
    words = [value for value in profile.values if not _is_number(value)]
    if words and all(map(WRITTEN.match, profile.values)):
        return f"numbers with commas or signs, such as {short(words[0], 30)}"
    if profile.numbers > 0.5 * profile.present:
        return (
            f"numbers mixed with words, such as {short(words[0], 30)}" if words else f"numbers beyond {MAX_FLOAT32:.1e}"
        )
    return ""


def _refuse(profiles: Sequence[ColumnProfile]) -> None:
    """Raise an error where some columns cannot be used as they are."""
    refused = [(profile, why) for profile in profiles if (why := _refusal(profile))]
    if refused:
        raise DataError(_advice(refused))


def _advice(refused: Sequence[tuple[ColumnProfile, str]]) -> str:
    """One line on all refused columns."""
    problems = "; ".join(f"{short(profile.name)} holds {why}" for profile, why in refused[:5])
    more = f"; and {len(refused) - 5} more columns" if len(refused) > 5 else ""
    reasons = " ".join(why for _, why in refused)
    tips = [f"leave out what cannot be used (--ignore {short(refused[0][0].name, quoted=False)})"]
    tips += ["write lists of numbers of one length, or one column per number"] if "lists" in reasons else []
    tips += ["read words as missing (--numeric) or numbers as names (--categorical)"] if "mixed" in reasons else []
    tips += ["write them as 1234.5, or read them as names (--categorical)"] if "signs" in reasons else []
    return f"{problems}{more}. What to do: {', or '.join(tips)}"


def _summary(roles: Sequence[Role]) -> str:
    return ", ".join(f"{short(role.name)} ({role.why or role.kind})" for role in roles[:6])


def _span(profile: ColumnProfile) -> str:
    distinct = len(profile.values) if not profile.truncated else 0
    values = f", {distinct} different values" if 0 < distinct <= MAX_COUNTED_VALUES else ""
    return f"{profile.lowest:.4g} to {profile.highest:.4g}{values}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
