"""A method as a recipe wants it, and the recipe as the method does."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.recipes.presets import Preferences, parts, recipe
from invariance.recipes.recipe import Recipe


class Profile(NamedTuple):
    """What belongs together, in the order that ``train`` takes it."""

    objective: Method
    recipe: Recipe


def profile(
    method: str,
    name: str = "default",
    *preferences: Preferences,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
) -> Profile:
    """A method by the recipe called ``name``: ours, ``"paper"``, or several joined by ``+``.

    ``preferences`` are what a data set changes in recipes, ``changes`` are fields of the ``objective`` and of the
    ``recipe``, and win.

    Example:
        >>> objective, how = profile("irmv1")
        >>> objective.gamma, how.explain
        (1.0, 2)
        >>> profile("irmv1", "paper").objective.gamma
        1000000.0

    """
    changes = changes or {}
    own = {field: value for part in parts(name) for field, value in METHODS[method].profiles.get(part, {}).items()}
    objective = METHODS.create(method, {**own, **changes.get("objective", {})})
    return Profile(objective, recipe(name, objective.preferences, *preferences, changes=changes.get("recipe")))


def adjusted(method: type[Method]) -> dict[str, dict[str, Any]]:
    """What differs from a method's defaults and a recipe's where both meet, by the recipe's name."""
    names = dict.fromkeys((*method.profiles, *method.preferences))
    return {name: {**method.profiles.get(name, {}), **method.preferences.get(name, {})} for name in names}
