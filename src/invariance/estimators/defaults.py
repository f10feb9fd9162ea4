"""Default hyperparameters for tables, chosen by leave-one-environment-out risk on synthetic tables."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from invariance.core.environment import Environment
from invariance.core.families import Family
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.recipes.presets import recipe
from invariance.recipes.recipe import Recipe

GivenRecipe = str | Recipe | Mapping[str, Any]
"""A recipe, its name, or ``"auto"`` and changes to it."""
FIELDS: dict[str, Any] = {"gamma": 100.0, "divide_by": "nothing", "l2": 1e-3}
"""Fields of a method that is given by name, if it has them; the papers' values are for images."""
DEBIASED_FIELDS: dict[str, Any] = {"gamma": 1.0, "gamma_alone": FIELDS["gamma"]}
"""Changes to these fields where the recipe debiases first: little is left to penalise."""
MAX_ENVIRONMENTS = 50
"""With more environments, Env-PoE is not tried: the cost of an environment classifier grows with their number."""
FULL_BATCH_ROWS, BATCH_ROWS = 8192, 4096
"""Up to this number of rows, batches are full; beyond it, the number of rows per batch."""
UPDATES = 300
"""With full batches; twice as many with smaller ones."""


def objective(method: str | Method, given: GivenRecipe = "auto") -> Method:
    """The method, with a table's defaults where it is given by name."""
    if isinstance(method, Method):
        return method
    own = {field.name for field in dataclasses.fields(METHODS[method])}
    fields = FIELDS | DEBIASED_FIELDS if _debiases(given) else FIELDS
    return METHODS.create(method, {name: value for name, value in fields.items() if name in own})


def candidates(environments: Sequence[Environment], family: Family) -> dict[str, Method]:
    """The methods that ``method="auto"`` compares, by name, ERM first."""
    names = ("erm", "env-poe" if debiasable(environments, family) else "irmv1", "rex")
    return {name: objective(name) for name in names}


def debiasable(environments: Sequence[Environment], family: Family) -> bool:
    """Whether Env-PoE is tried: on tables with classes, of not too many environments."""
    x = environments[0].x
    table = isinstance(x, Tensor) and x.ndim == 2 and x.device.type == "cpu"
    return family.labels > 0 and 1 < len(environments) <= MAX_ENVIRONMENTS and table


def recipe_for(given: GivenRecipe, method: Method, environments: Sequence[Environment]) -> Recipe:
    """The given recipe, the recipe of that name with the method's preferences, or the default one for tables.

    A mapping changes fields of the default one.
    """
    if isinstance(given, Recipe):
        return given
    if isinstance(given, Mapping):
        return _table(environments, given)
    return _table(environments) if given == "auto" else recipe(given, method.preferences)


def _debiases(given: GivenRecipe) -> bool:
    if isinstance(given, Mapping):
        return bool(given.get("debias"))
    return given != "auto" and (recipe(given) if isinstance(given, str) else given).debias > 0


def _table(environments: Sequence[Environment], changes: Mapping[str, Any] | None = None) -> Recipe:
    """Full batches where rows are few, else batches with at least four rows per environment."""
    rows = sum(len(e) for e in environments)
    fields: dict[str, Any] = {"lr": 0.03, "warmup": 0.25, "schedule": "decay", "epochs": UPDATES}
    if rows > FULL_BATCH_ROWS:
        batch = max(BATCH_ROWS, 4 * len(environments))
        fields |= {"batch_size": batch, "epochs": math.ceil(2 * UPDATES / math.ceil(rows / batch))}
    return recipe("full-batch", changes={**fields, **(changes or {})})
