"""Options of a command line as parameters of an estimator."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from invariance.core.errors import BadValue
from invariance.estimators import defaults
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.recipes.presets import recipe
from invariance.recipes.recipe import Recipe


def widths(hidden: str | None) -> tuple[int, ...] | None:
    """``32,32`` as widths of hidden layers, ``none`` for a linear model; None where nothing is given."""
    if hidden is None:
        return None
    parts = [part.strip() for part in hidden.split(",") if part.strip() not in ("", "none")]
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise BadValue(f"--hidden is {hidden!r}; expected widths of layers joined by commas, for example 32,32")
    return tuple(map(int, parts))


def changed_method(name: str, changes: Mapping[str, Any]) -> Method:
    """The method with a table's defaults, and some fields changed."""
    return METHODS.load(METHODS.dump(defaults.objective(name)) | dict(changes))


def changed_recipe(given: str | Recipe | Mapping[str, Any], changes: Mapping[str, Any]) -> Any:
    """A recipe with some fields changed; those of ``"auto"`` are changed when the rows are known."""
    if not changes:
        return given
    if not isinstance(given, Recipe):
        return dict(changes)
    return recipe("full-batch", changes=TypeAdapter(Recipe).dump_python(given, mode="json") | dict(changes))
