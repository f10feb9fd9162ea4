"""Tables and figures as values: what a study shows, before anything is drawn or typeset."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, pstdev
from typing import Literal, NamedTuple

from invariance.core.html import html_table


@dataclass(frozen=True)
class Printed:
    """A number as a paper prints it."""

    mean: float
    std: float | None = None


@dataclass(frozen=True)
class Quantity:
    """One number of ours, with one value per seed, beside the printed one.

    ``note`` says why values are missing: seeds that collapsed, or what the number waits for. ``seeds`` is how many were
    run, whether they are among the values or not, and ``collapsed`` how many of these collapsed; values that are not of
    seeds have none. ``metric`` says what was measured, so that only like is compared with like.
    """

    ours: tuple[float, ...] = ()
    printed: Printed | None = None
    note: str = ""
    seeds: int = 0
    collapsed: int = 0
    metric: str = ""

    @cached_property
    def mean(self) -> float:
        """Over seeds; not a number where there is none."""
        return fmean(self.ours) if self.ours else math.nan

    @cached_property
    def std(self) -> float:
        """Population deviation over seeds, as the literature's code computes it; not a number for fewer than two."""
        return pstdev(self.ours) if len(self.ours) > 1 else math.nan

    @property
    def difference(self) -> float:
        """Ours less the printed one; not a number where one of them is missing."""
        return self.mean - self.printed.mean if self.printed else math.nan

    def __str__(self) -> str:
        """Mean ± deviation, with the printed one behind it; the note where there is no value."""
        ours = f"{self.mean:.1f}" + (f" ± {self.std:.1f}" if len(self.ours) > 1 else "") if self.ours else self.note
        return f"{ours} (printed {self.printed.mean:g})" if self.printed else ours


@dataclass(frozen=True)
class Difference:
    """Of two quantities, seed by seed, over the seeds that both have; ``low`` and ``high`` are its 95 % interval.

    Fewer than two seeds have no interval.
    """

    values: tuple[float, ...] = ()
    low: float = math.nan
    high: float = math.nan
    note: str = ""

    @property
    def mean(self) -> float:
        """Over seeds; not a number where there is none."""
        return fmean(self.values) if self.values else math.nan

    @property
    def clear(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Sparkline:
    """Values that are drawn as a row of small bars between ``low`` and ``high``."""

    values: tuple[float, ...]
    low: float = 0.0
    high: float = 100.0


class Formula(str):
    """A formula in plain letters, as in R^e and min_{w,θ}; where it can be, it is typeset."""

    __slots__ = ()


Cell = Quantity | Difference | Sparkline | float | str | tuple[str, ...]
"""A number, words, or several sentences, which are numbered."""


@dataclass(frozen=True)
class Column:
    """``name`` heads one column, ``group`` all neighbouring columns that share it."""

    name: str
    group: str = ""


@dataclass(frozen=True)
class Line:
    """A row of a table."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """``provenance`` says how its numbers were made: scale, seeds, selection rule.

    ``number`` is its own in the paper, such as "Table 4"; ``over`` is what deviations are taken over. Each line of a
    ``listing`` is a record of its own: there may be many, and no two of them are compared.
    """

    name: str
    title: str
    caption: str
    heading: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    provenance: str = ""
    notes: tuple[str, ...] = ()
    number: str = ""
    over: str = "seeds"
    listing: bool = False

    @property
    def full_title(self) -> str:
        """Its title, after its number."""
        return _numbered(self.number, self.title)

    def _repr_html_(self) -> str:
        names = [f"{column.group}: {column.name}" if column.group else column.name for column in self.columns]
        rows = [(line.label, *map(_short, line.cells)) for line in self.lines]
        notes = " ".join(filter(None, (self.caption, *self.notes, self.provenance)))
        return html_table((self.heading, *names), rows, title=self.full_title, notes=notes)


def _short(cell: Cell) -> str | float:
    """A cell in a notebook."""
    match cell:
        case Difference():
            return f"{cell.mean:.1f} [{cell.low:.1f}, {cell.high:.1f}]" if cell.values else cell.note
        case Sparkline():
            return " … ".join(f"{value:.0f}" for value in (cell.values[:1] + cell.values[-1:]))
        case tuple():
            return " ".join(cell)
        case str() | float() | int():
            return cell
        case _:
            return str(cell)


class Flag(NamedTuple):
    """A point to be wary of, and why: some of its seeds collapsed, or all of them."""

    x: float
    y: float
    note: str


@dataclass(frozen=True)
class Curve:
    """y over x, with a band from ``low`` to ``high`` where these are given.

    Curves of one ``method`` are drawn alike wherever they are drawn; without one, those of one label are. ``printed``
    are points that the paper gives in numbers.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    dashed: bool = False
    method: str = ""
    printed: tuple[tuple[float, float], ...] = ()
    flags: tuple[Flag, ...] = ()

    @property
    def drawn_as(self) -> str:
        """The name that decides its colour and dash."""
        return self.method or self.label


class Mark(NamedTuple):
    """A place on the x axis that the paper marks: by a line across, or by a triangle on every curve."""

    x: float
    name: str
    kind: Literal["line", "triangle"] = "line"


@dataclass(frozen=True)
class Lines:
    """Curves on common axes. ``span`` limits the y axis; ``places`` name the positions 0, 1, 2, … on the x axis.

    A label that is a :class:`Formula` is typeset.
    """

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    log_x: bool = False
    log_y: bool = False
    span: tuple[float, float] | None = None
    places: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Boxes:
    """The distribution of some values in each group."""

    title: str
    y_label: str
    groups: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Surface:
    """A function on a grid: ``z[i][j]`` at ``y[i]``, ``x[j]``."""

    title: str
    x_label: str
    y_label: str
    z_label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    z: tuple[tuple[float, ...], ...]


Panel = Lines | Boxes | Surface


@dataclass(frozen=True)
class Figure:
    """Panels side by side. ``provenance`` says how its numbers were made, ``number`` is its own in the paper."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    provenance: str = ""
    notes: tuple[str, ...] = ()
    number: str = ""

    @property
    def full_title(self) -> str:
        """Its title, after its number."""
        return _numbered(self.number, self.title)


def _numbered(number: str, title: str) -> str:
    return f"{number}: {title}" if number else title


Artefact = Table | Figure
