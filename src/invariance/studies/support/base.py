"""A study has arms and shows their results. An arm is one run, made again with every seed."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

from invariance.core.artefacts import Artefact, Quantity, Table
from invariance.data import DATA
from invariance.data.base import DataSet
from invariance.data.formats.downloads import data_folders
from invariance.experiments.selected_runs import SelectedRuns
from invariance.experiments.spec import Spec
from invariance.experiments.stored_runs import identity
from invariance.methods.profile import by_section
from invariance.studies.support.printed import printed
from invariance.studies.support.recipes_text import methods_text, recipes_text
from invariance.studies.support.scales import SCALES
from invariance.training.selection import label

METRICS = {"average": "mean", "worst": "worst", "gap": "gap"}
"""What a column is called, and the name of its score."""
BASELINES = ("IRMv1", "IRMv0", "IRM-Game", "REx", "BIRM", "SparseIRM", "Fishr")
"""The seven methods that the paper compares with, in its order."""
OWN = "Env-PoE"
"""Our own method, a line below those of the paper."""
NO_RUN = "no run yet"


@dataclass(frozen=True)
class Arm:
    """One place in a table or figure. ``waits`` says what is missing to run it: data, or something of a later version.

    Only the latter has no spec: runs that were made elsewhere are shown without their data. ``method``, ``data`` and
    ``setting`` are called as the paper calls them; ``x`` is where the arm stands on an axis.
    """

    method: str
    data: str
    setting: str
    spec: Spec | None
    waits: str = ""
    x: float = math.nan

    @cached_property
    def identity(self) -> str:
        """What the runs of its seeds share; nothing where there can be none yet."""
        return identity(self.spec.to_json()) if self.spec else ""


Changes = Mapping[str, Mapping[str, Any]]

NAMES: dict[str, tuple[str, Mapping[str, Any]]] = {
    "SparseIRM": ("sparse-irm", {}),
    "BLOC-IRM-v1": ("bloc-irm", {"penalty": "irmv1"}),
    "BLOC-IRM-REx": ("bloc-irm", {"penalty": "rex"}),
    "BLOC-IRM-Fishr": ("bloc-irm", {"penalty": "fishr"}),
}
"""Methods that the paper does not call as we do: our name and fields."""


def arm(
    scale: str,
    method: str,
    data: str,
    setting: str,
    recipe: str,
    changes: Changes | None = None,
    *,
    x: float = math.nan,
) -> Arm:
    """The arm at a scale; ``changes`` are fields by section, and win over what the scale changes.

    A scale that makes data smaller does so where the data set has the field for it.
    """
    if data.lower() not in DATA.classes:
        return Arm(method, data, setting, None, f"waits for {data}: not in this version yet", x)
    how = SCALES[scale]
    name, variant = NAMES.get(method, (method.lower(), {}))
    known = {field.name for field in fields(DATA[data])}
    smaller = {field: value for field, value in how.changes.get("data", {}).items() if field in known}
    merged: dict[str, dict[str, Any]] = {"method": dict(variant)}
    own = dict(DATA[data].smaller.get(how.smaller, {})) if how.smaller else {}
    recipes = own.pop("recipes", {})
    for section, values in (
        *{**how.changes, "data": smaller}.items(),
        *own.items(),
        *by_section(changes or {}).items(),
    ):
        merged.setdefault(section, {}).update(values)
    scaled = (how.recipes.get(part, part) for part in recipe.split("+"))
    recipe = "+".join(recipes.get(part, part) for part in scaled)
    spec = Spec.of(data.lower(), name, recipe, 0, merged)
    if missing := _missing(spec.data, tuple(data_folders())):
        return Arm(method, data, setting, spec, f"waits for {data}: {missing}", x)
    return Arm(method, data, setting, spec, "", x)


@cache
def _missing(data: DataSet, places: tuple[Path, ...]) -> str:
    """Why data in a folder cannot be used, if they cannot; asked once, since every arm asks. Files are fetched."""
    state = None if data.files else data.availability()
    return state.about if state and state.here == "missing" else ""


@dataclass(frozen=True)
class Plan:
    """A study at one scale with its arms, which are built once: for what is run and for what is shown.

    ``alike`` names the other scales to which all runs that there are belong too.
    """

    study: "Study"
    scale: str
    arms: tuple[Arm, ...]
    alike: tuple[str, ...] = ()

    @property
    def identities(self) -> set[str]:
        """Of all arms that can have runs."""
        return {arm.identity for arm in self.arms if arm.spec}


@dataclass(frozen=True)
class Results:
    """The runs there are of a plan's arms, at the checkpoints that a selection rule takes.

    Collapsed seeds are counted and not averaged, unless ``with_collapsed``.
    """

    plan: Plan
    selection: str
    rows: Mapping[str, SelectedRuns]
    """By the identity of an arm."""
    with_collapsed: bool = False

    @property
    def arms(self) -> tuple[Arm, ...]:
        """Every place to fill."""
        return self.plan.arms

    @property
    def scale(self) -> str:
        """The scale of the plan."""
        return self.plan.scale

    def row(self, arm: Arm) -> SelectedRuns | None:
        """The seeds of an arm, or None where there is no run."""
        return self.rows.get(arm.identity) if arm.spec else None

    def quantity(self, arm: Arm, metric: str, study: str) -> Quantity:
        """A metric of an arm, in percent, beside the number that the study's original prints."""
        row = self.row(arm)
        number = printed(study, arm.data, arm.setting, arm.method, metric)
        if not row:
            return Quantity((), number, self.note(arm), metric=metric)
        ours = tuple(row.values(METRICS[metric]))
        return Quantity(ours, number, self.note(arm), len(row.runs), row.collapsed, metric)

    def note(self, arm: Arm) -> str:
        """Why values of an arm are missing, and which are of runs that debiasing left as they were; mostly nothing."""
        if row := self.row(arm):
            return "; ".join(filter(None, (row.status if row.failures else "", row.note)))
        return arm.waits or NO_RUN

    def notes(self, arms: Iterable[Arm]) -> tuple[str, ...]:
        """What is missing of these arms, for a figure, which has no place for a note at each of them."""
        noted = [(arm, note) for arm in arms if (note := self.note(arm))]
        without = sum(note == NO_RUN for _, note in noted)
        sentences = [f"{arm.method}, {arm.data}, {arm.setting}: {note}" for arm, note in noted if note != NO_RUN]
        return (*([f"{NO_RUN} at {without} point{'s' if without > 1 else ''}"] if without else []), *sentences)

    def _repr_html_(self) -> str:
        tables = (each for each in self.plan.study.show(self) if isinstance(each, Table))
        return "".join(table._repr_html_() for table in tables)

    @property
    def provenance(self) -> str:
        """How the numbers were made: scale, the recipes that the runs had, seeds, selection rule."""
        several = any(len(row.runs) > 1 for row in self.rows.values())
        deviation = " (± population standard deviation)" if several else ""
        return f"{self.runs_text}{deviation} · checkpoint: {label(self.selection)}"

    @property
    def runs_text(self) -> str:
        """The runs in words: scale, recipes, what was changed in methods, and how many seeds there are of each."""
        seeds = sorted({len(row.runs) for row in self.rows.values()})
        counted = f"{seeds[0]}–{seeds[-1]}" if len(seeds) > 1 else str(*seeds) if seeds else "no"
        included = ", collapsed ones included" if self.with_collapsed else ""
        specs = [row.spec for row in self.rows.values()]
        seeds_text = f"{counted} seed{'' if seeds == [1] else 's'}{included}"
        return " · ".join((_scale_text(self.plan), *recipes_text(specs), *methods_text(specs), seeds_text))


def _scale_text(plan: Plan) -> str:
    """The scale in words; runs that several scales have are said to be of all of them."""
    if plan.alike:
        return f"scales {', '.join(sorted((plan.scale, *plan.alike), key=list(SCALES).index))}, which share these runs"
    return f"scale {plan.scale} ({SCALES[plan.scale].about})"


class Study(ABC):
    """A table or figure: what it needs, and what it shows."""

    title: ClassVar[str]
    caption: ClassVar[str]
    number: ClassVar[str] = ""
    """Its own in the paper, such as "Table 4"; a study of our own has none."""
    position: ClassVar[int] = 0
    """Among the tables and figures of the paper, from 1 on."""
    most_seeds: ClassVar[int | None] = None
    """More would not be shown; None is no limit."""

    @property
    def name(self) -> str:
        """The name of its file."""
        return type(self).__module__.rpartition(".")[2].replace("_", "-")

    @property
    def full_title(self) -> str:
        """Its title, after its number."""
        return f"{self.number}: {self.title}" if self.number else self.title

    @abstractmethod
    def arms(self, scale: str) -> list[Arm]:
        """Every place to fill, at this scale."""

    def plan(self, scale: str) -> Plan:
        """The study at this scale."""
        return Plan(self, scale, tuple(self.arms(scale)))

    @abstractmethod
    def show(self, results: Results) -> tuple[Artefact, ...]:
        """The tables and figures that the results give."""
