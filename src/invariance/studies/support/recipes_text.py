"""How runs were trained, in words: their recipes, and what was changed in these and in methods."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Literal

from invariance.core.errors import InvarianceError
from invariance.core.fields import dumped, flattened
from invariance.data import DATA
from invariance.experiments.spec import Spec
from invariance.methods.profile import Profile, profile

Changed = dict[str, dict[str, set[str]]]
"""Values of changed fields: by the name of a recipe or a method, then by field."""


def recipes_text(specs: Iterable[Spec]) -> list[str]:
    """One text, such as "recipe small-batch (epochs 2; batch_size 256, 1024)"; nothing where there is no run."""
    changed = _changed(specs, "recipe", lambda spec: spec.recipe_name)
    texts = [_text(name, changed[name]) for name in sorted(changed)]
    return [f"recipe{'s' * (len(texts) > 1)} {', '.join(texts)}"] if texts else []


def methods_text(specs: Iterable[Spec]) -> list[str]:
    """One text, such as "changed in methods: REx (gamma 4000)"; nothing where they are as recipes have them."""
    changed = _changed(specs, "method", lambda spec: spec.method.title)
    texts = [_text(name, fields) for name, fields in changed.items() if fields]
    return [f"changed in methods: {', '.join(texts)}"] if texts else []


def _changed(specs: Iterable[Spec], section: Literal["recipe", "method"], name: Callable[[Spec], str]) -> Changed:
    changed: Changed = {}
    for spec in specs:
        own = changed.setdefault(name(spec), {})
        for field, value in _changes(spec, section).items():
            own.setdefault(field, set()).add(_value(value))
    return changed


def _changes(spec: Spec, section: Literal["recipe", "method"]) -> dict[str, object]:
    """The fields of a run's recipe or method that are not the usual ones."""
    usual = _usual(spec.method_name, spec.recipe_name, spec.data_name)
    known = dict(flattened(dumped(getattr(usual, section)))) if usual else {}
    return {k: v for k, v in flattened(dumped(getattr(spec, section))) if known and known.get(k) != v}


@cache
def _usual(method: str, recipe: str, data: str) -> Profile | None:
    """A method and its recipe as they are on a data set; None for a recipe that is not there any more."""
    try:
        return profile(method, recipe, DATA[data].preferences, profiles=DATA[data].profiles)
    except InvarianceError:
        return None


def _value(value: object) -> str:
    """A number in three digits; whole thousands are written out."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _text(name: str, changed: Mapping[str, set[str]]) -> str:
    fields = [f"{field} {', '.join(sorted(values, key=_numeric))}" for field, values in changed.items()]
    return f"{name} ({'; '.join(fields)})" if fields else name


def _numeric(value: str) -> tuple[float, str]:
    try:
        return float(value), value
    except ValueError:
        return float("inf"), value
