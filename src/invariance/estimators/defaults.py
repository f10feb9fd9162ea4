"""How tables are trained where nothing is said: chosen by leave-one-environment-out risk on synthetic tables."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from invariance.core.environment import Environment
from invariance.core.families import Family
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.recipes.presets import recipe
from invariance.recipes.recipe import Recipe

CANDIDATES: dict[str, dict[str, Any]] = {"erm": {}, "irmv1": {}, "rex": {"gamma": 100.0}}
"""What is compared where the method is left open, ERM first, and what is changed in it.

Where sites are too small or too alike to be told apart, a penalty alone is what helps.
"""
FIELDS: dict[str, Any] = {"gamma": 100.0, "divide_by": "nothing", "l2": 1e-3}
"""Of a method that is given by name, where it has them; the papers' values are for images."""
EXPLAINED: dict[str, Any] = {"gamma": 1.0}
"""What changes in them where what tells environments apart is explained away first: little is left to penalise."""
TOLD = 50
"""Up to so many environments are told apart; it costs more the more there are."""
WHOLE, BATCH = 8192, 4096
"""Up to so many rows every update sees all of them; of more, so many at a time."""
UPDATES = 300


def objective(method: str | Method, *, explained: bool = False) -> Method:
    """The method, with a table's defaults where it is given by name."""
    if isinstance(method, Method):
        return method
    own = {field.name for field in dataclasses.fields(METHODS[method])}
    fields = FIELDS | EXPLAINED if explained else FIELDS
    return METHODS.create(method, {name: value for name, value in fields.items() if name in own})


def candidates(*, explained: bool) -> dict[str, Method]:
    """What is compared where the method is left open, by name, ERM first."""
    return {
        method: dataclasses.replace(objective(method, explained=explained), **changes)
        for method, changes in CANDIDATES.items()
    }


def explains(given: str | Recipe, environments: Sequence[Environment], family: Family) -> bool:
    """Whether what tells environments apart is explained away.

    Where a recipe says so; where it is left open, for classes, in rows of numbers that count the same.
    """
    if given != "auto":
        return (recipe(given) if isinstance(given, str) else given).explain > 0
    x, same = environments[0].x, all(e.weight is None for e in environments)
    here = isinstance(x, Tensor) and x.ndim == 2 and x.device.type == "cpu"
    return family.labels > 0 and len(environments) <= TOLD and same and here


def recipe_for(
    given: str | Recipe, method: Method, environments: Sequence[Environment], *, explained: bool = False
) -> Recipe:
    """The recipe itself, the one of that name as the method prefers it, or the one for tables.

    A method that needs no environments is trained as it is, without explaining anything away; so is one with a heavy
    penalty where the recipe is left open.
    """
    if isinstance(given, Recipe):
        return given if method.needs_environments > 1 else dataclasses.replace(given, explain=0)
    if given != "auto":
        return recipe(given, method.preferences)
    light = getattr(method, "gamma", 0.0) <= EXPLAINED["gamma"]
    return _table(environments, explained=explained and light and method.needs_environments > 1)


def _table(environments: Sequence[Environment], *, explained: bool) -> Recipe:
    """All rows at once where they are few, else batches with at least four rows of every environment."""
    rows = sum(len(e) for e in environments)
    fields: dict[str, Any] = {"lr": 0.03, "warmup": 0.25, "schedule": "decay", "epochs": UPDATES}
    if rows > WHOLE:
        batch = max(BATCH, 4 * len(environments))
        fields |= {"batch_size": batch, "epochs": math.ceil(2 * UPDATES / math.ceil(rows / batch))}
    if explained:
        fields["explain"] = math.ceil(fields["epochs"] / 3)
    return recipe("full-batch", changes=fields)
