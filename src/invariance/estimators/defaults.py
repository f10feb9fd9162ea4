"""How tables are trained where nothing is said: chosen by leave-one-environment-out on synthetic tables."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from invariance.core import Environment
from invariance.objectives import METHODS
from invariance.objectives.base import Objective
from invariance.recipes.presets import recipe
from invariance.recipes.recipe import Recipe

FIELDS: Mapping[str, Mapping[str, Any]] = {
    "irmv1": {"gamma": 100.0, "divide_by": "nothing", "l2": 1e-4},
    "rex": {"gamma": 100.0, "divide_by": "nothing", "l2": 1e-4},
    "erm": {"l2": 1e-4},
}
"""What a method changes in its fields on a table. The papers' values are for images and thousands of samples."""

WHOLE = 8192
"""Up to so many rows, every update sees all of them."""
BATCH = 4096
UPDATES = 400


def objective(method: str | Objective) -> Objective:
    """The method, with a table's defaults where it is given by name."""
    if isinstance(method, Objective):
        return method
    return METHODS.create(method, FIELDS.get(method.lower().replace("_", "-"), {}))


def table_recipe(environments: Sequence[Environment]) -> Recipe:
    """All rows at once where they are few, else batches with a few rows of every environment."""
    rows = sum(len(e) for e in environments)
    fields: dict[str, Any] = {"lr": 1e-2, "warmup": 0.25, "schedule": "decay", "epochs": UPDATES}
    if rows > WHOLE:
        batch = max(BATCH, 4 * len(environments))
        fields |= {"batch_size": batch, "epochs": math.ceil(2 * UPDATES / math.ceil(rows / batch))}
    return recipe("full-batch", changes=fields)


def recipe_for(given: str | Recipe, method: Objective, environments: Sequence[Environment]) -> Recipe:
    """The recipe itself, the one of that name as the method prefers it, or the one for tables."""
    if isinstance(given, Recipe):
        return given
    return table_recipe(environments) if given == "auto" else recipe(given, method.preferences)


def candidates() -> list[tuple[str, Objective]]:
    """What is compared where the method is left open; ERM first."""
    return [(name, objective(name)) for name in ("erm", "irmv1", "rex")]
