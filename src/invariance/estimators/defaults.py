"""How tables are trained where nothing is said: chosen by leave-one-environment-out risk on synthetic tables."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from invariance.core import Environment
from invariance.objectives import METHODS
from invariance.objectives.base import Objective
from invariance.recipes.presets import recipe
from invariance.recipes.recipe import Recipe

CANDIDATES = ("erm", "irmv1", "irmv0", "rex")
"""What is compared where the method is left open, ERM first."""
FIELDS: dict[str, Any] = {"gamma": 1e3, "divide_by": "nothing", "l2": 1e-3}
"""Of a method that is given by name, where it has them; the papers' values are for images."""
WHOLE, BATCH = 8192, 4096
"""Up to so many rows every update sees all of them; of more, so many at a time."""
UPDATES = 300


def objective(method: str | Objective) -> Objective:
    """The method, with a table's defaults where it is given by name."""
    if isinstance(method, Objective):
        return method
    own = {field.name for field in dataclasses.fields(METHODS[method])}
    return METHODS.create(method, {name: value for name, value in FIELDS.items() if name in own})


def recipe_for(given: str | Recipe, method: Objective, environments: Sequence[Environment]) -> Recipe:
    """The recipe itself, the one of that name as the method prefers it, or the one for tables."""
    if isinstance(given, Recipe):
        return given
    return _table(environments) if given == "auto" else recipe(given, method.preferences)


def _table(environments: Sequence[Environment]) -> Recipe:
    """All rows at once where they are few, else batches with at least four rows of every environment."""
    rows = sum(len(e) for e in environments)
    fields: dict[str, Any] = {"lr": 0.03, "warmup": 0.25, "schedule": "decay", "epochs": UPDATES}
    if rows > WHOLE:
        batch = max(BATCH, 4 * len(environments))
        fields |= {"batch_size": batch, "epochs": math.ceil(2 * UPDATES / math.ceil(rows / batch))}
    return recipe("full-batch", changes=fields)
