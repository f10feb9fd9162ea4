"""A method with the fields that go with a recipe, and the recipe with the fields that go with the method."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from invariance.core.errors import BadValue
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.recipes.presets import Preferences, followed, recipe
from invariance.recipes.recipe import Recipe

EARLIER_SECTIONS = {"objective": "method"}
"""Earlier names of sections of a run, still understood."""


class Profile(NamedTuple):
    """What belongs together, in the order that ``train`` takes it."""

    method: Method
    recipe: Recipe


def profile(
    method_name: str,
    name: str = "default",
    *preferences: Preferences,
    profiles: Preferences | None = None,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
) -> Profile:
    """A method by the recipe called ``name``, such as ``"default"`` or ``"paper"``, or several joined by ``+``.

    ``preferences`` are what a data set changes in recipes, ``profiles`` what it changes in methods that have such
    fields; ``changes`` are fields of the ``method`` and of the ``recipe``, and win.

    Example:
        >>> method, how = profile("irmv1", "debiased")
        >>> method.gamma, how.debias
        (1.0, 2)
        >>> profile("irmv1", "paper").method.gamma
        1000000.0

    """
    changes = by_section(changes or {})
    cls = METHODS[method_name]
    known = {field.name for field in fields(cls)}
    own: dict[str, Any] = {}
    for protocol in [protocol for _, protocol in followed(name) if protocol]:
        own |= cls.profiles.get(protocol, {})
        own |= {k: v for k, v in (profiles or {}).get(protocol, {}).items() if k in known}
    method = METHODS.create(method_name, {**own, **changes.get("method", {})})
    asked = recipe(name, method.preferences, *preferences, changes=changes.get("recipe"))
    how = method.adapted(asked)
    if how != asked and {"debias", "explain"} & changes.get("recipe", {}).keys():
        raise BadValue(f"{method.title} cannot be trained with debias={asked.debias}; ERM with debiasing is env-poe")
    return Profile(method, how)


def adjusted(method: type[Method]) -> dict[str, dict[str, Any]]:
    """What differs from a method's defaults and a recipe's where both meet, by the recipe's protocol."""
    protocols = dict.fromkeys((*method.profiles, *method.preferences))
    return {each: {**method.profiles.get(each, {}), **method.preferences.get(each, {})} for each in protocols}


def by_section(changes: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Changed fields under the present names of their sections."""
    return {EARLIER_SECTIONS.get(section, section): fields for section, fields in changes.items()}
