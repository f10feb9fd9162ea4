"""Tables and figures as values: what a study shows, before anything is drawn or typeset."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, pstdev


@dataclass(frozen=True)
class Printed:
    """A number as a paper prints it."""

    mean: float
    std: float | None = None


@dataclass(frozen=True)
class Quantity:
    """One number of ours, with one value per seed, beside the printed one.

    ``note`` says why values are missing: seeds that collapsed, or what the number waits for.
    """

    ours: tuple[float, ...] = ()
    printed: Printed | None = None
    note: str = ""

    @property
    def mean(self) -> float:
        """Over seeds; not a number where there is none."""
        return fmean(self.ours) if self.ours else math.nan

    @property
    def std(self) -> float:
        """Population deviation over seeds, as the literature's code computes it."""
        return pstdev(self.ours) if self.ours else math.nan

    @property
    def difference(self) -> float:
        """Ours less the printed one; not a number where one of them is missing."""
        return self.mean - self.printed.mean if self.printed else math.nan


@dataclass(frozen=True)
class Sparkline:
    """Values that are drawn as a row of small bars between ``low`` and ``high``."""

    values: tuple[float, ...]
    low: float = 0.0
    high: float = 100.0


class Formula(str):
    """A formula in plain letters, as in R^e and min_{w,θ}; where it can be, it is typeset."""

    __slots__ = ()


Cell = Quantity | Sparkline | float | str | tuple[str, ...]
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
    """``provenance`` says how its numbers were made: scale, seeds, selection rule."""

    name: str
    title: str
    caption: str
    heading: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    provenance: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Curve:
    """y over x, with a band from ``low`` to ``high`` where these are given."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    dashed: bool = False


@dataclass(frozen=True)
class Lines:
    """Curves on common axes. ``span`` limits the y axis; ``places`` name the positions 0, 1, 2, … on the x axis."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    log_x: bool = False
    log_y: bool = False
    span: tuple[float, float] | None = None
    places: tuple[str, ...] = ()


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
    """Panels side by side. ``provenance`` says how its numbers were made."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    provenance: str = ""
    notes: tuple[str, ...] = ()


Artefact = Table | Figure
