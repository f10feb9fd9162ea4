"""The recipes that runs had, in words: their names, and what was changed in them."""

from collections.abc import Iterable
from functools import cache

from invariance.core.errors import InvarianceError
from invariance.core.fields import dumped, flattened
from invariance.data import DATA
from invariance.experiments.spec import Spec
from invariance.methods.profile import profile

Fields = dict[str, object]


def recipes_text(specs: Iterable[Spec]) -> list[str]:
    """One text, such as "recipe small-batch (epochs 2; batch_size 256, 1024)"; nothing where there is no run."""
    changed: dict[str, dict[str, set[str]]] = {}
    for spec in specs:
        own = changed.setdefault(spec.recipe_name, {})
        for name, value in changes(spec).items():
            own.setdefault(name, set()).add(f"{value:.3g}" if isinstance(value, float) else str(value))
    if not changed:
        return []
    texts = [_text(name, changed[name]) for name in sorted(changed)]
    return [f"recipe{'s' * (len(texts) > 1)} {', '.join(texts)}"]


def changes(spec: Spec) -> Fields:
    """The fields of a run's recipe that are not those of the recipe it is called after."""
    usual = _usual(spec.method_name, spec.recipe_name, spec.data_name)
    return {k: v for k, v in _fields(spec).items() if usual and usual.get(k) != v}


def _fields(spec: Spec) -> Fields:
    return dict(flattened(dumped(spec.recipe)))


@cache
def _usual(method: str, recipe: str, data: str) -> Fields:
    """The fields of a recipe for a method on a data set; none for a recipe that is not there any more."""
    try:
        how = profile(method, recipe, DATA[data].preferences).recipe
    except InvarianceError:
        return {}
    return dict(flattened(dumped(how)))


def _text(name: str, changed: dict[str, set[str]]) -> str:
    fields = [f"{field} {', '.join(sorted(values, key=_numeric))}" for field, values in changed.items()]
    return f"{name} ({'; '.join(fields)})" if fields else name


def _numeric(value: str) -> tuple[float, str]:
    try:
        return float(value), value
    except ValueError:
        return float("inf"), value
