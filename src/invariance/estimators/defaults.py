"""Default hyperparameters for tables, chosen on synthetic tables (`benchmarks/own_data.py`)."""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from invariance.core.environment import Environment
from invariance.core.families import Family
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.recipes.presets import recipe
from invariance.recipes.recipe import Recipe

GivenRecipe = str | Recipe | Mapping[str, Any]
"""A recipe, its name, or ``"auto"`` and changes to it."""
FIELDS: dict[str, Any] = {"gamma": 1000.0, "divide_by": "nothing", "l2": 3e-4}
"""Fields of a method that is given by name, if it has them, for labels of full entropy; the papers' are for images."""
DEBIASED_FIELDS: dict[str, Any] = {"gamma": 1.0, "gamma_alone": FIELDS["gamma"]}
"""Changes to these fields where the recipe debiases first: little is left to penalise."""
GAMMAS: dict[str, tuple[float, ...]] = {
    "rex": (100.0, 1000.0),
    "fishr": (100.0, 1000.0),
    "irmv0": (1000.0,),
    "irmv1": (1000.0,),
}
"""The penalties that ``method="auto"`` compares, and their weights."""
LAYERS: tuple[tuple[int, ...], ...] = ((32,),)
"""Hidden layers that ``method="auto"`` tries beside a linear model."""
MAX_ENVIRONMENTS = 50
"""With more environments, Env-PoE is not tried: the cost of an environment classifier grows with their number."""
FULL_BATCH_ROWS, BATCH_ROWS = 20_000, 4096
"""Up to this number of rows, batches are full; beyond it, the number of rows per batch."""
UPDATES = 200
"""With full batches; twice as many with smaller ones."""
LINEAR_RATE, RATE = 0.1, 0.02
"""Learning rates of linear models, and of those with hidden layers."""
STEP = {"kind": "adam", "beta1": 0.8}
"""With less momentum than usual, few updates are enough: what rounding errors set in motion dies out in time."""
MIN_ENTROPY = 0.02
"""Labels of less entropy, in units of the highest possible, count as if they had this."""


def named(method: str | Method, given: GivenRecipe = "auto", *, entropy: float = 1.0, **fields: Any) -> Method:
    """The method, with a table's defaults where it is given by name, changed by ``fields``.

    Losses are as small as the labels' ``entropy``, so l2 falls with it, and γ, the weight of a product of two losses or
    residuals, grows with it.
    """
    if isinstance(method, Method):
        return method
    own = {field.name for field in dataclasses.fields(METHODS[method])}
    values = {**FIELDS, **(DEBIASED_FIELDS if _debiases(given) else {}), **fields}
    values = {name: value for name, value in values.items() if name in own}
    values["l2"] *= entropy
    return METHODS.create(method, values | {"gamma": values["gamma"] / entropy} if "gamma" in values else values)


def candidates(
    environments: Sequence[Environment], family: Family, subsets: Collection[tuple[int, ...]] = ()
) -> list[Method]:
    """The methods that ``method="auto"`` compares, ERM first; ``subsets`` of columns may be left out."""
    entropy = relative_entropy(environments, family)
    names = ("erm", "env-poe") if debiasable(environments, family) else ("erm",)
    return [
        *(named(name, entropy=entropy) for name in names),
        *(named("subset-erm", entropy=entropy, without=each) for each in subsets),
        *(named(name, entropy=entropy, gamma=gamma) for name, gammas in GAMMAS.items() for gamma in gammas),
    ]


def relative_entropy(environments: Sequence[Environment], family: Family) -> float:
    """The entropy of the labels, in units of the highest possible; 1 for numbers, which are standardised."""
    if not family.labels:
        return 1.0
    entropy = float(torch.special.entr(class_shares(environments, family)).sum()) / math.log(family.labels)
    return max(entropy, MIN_ENTROPY)


def class_shares(environments: Sequence[Environment], family: Family) -> Tensor:
    """The share of every class, by sample weights, averaged over environments, [K]."""
    weights = [None if e.weight is None else e.weight.double() for e in environments]
    counts = [torch.bincount(e.y.long(), w, family.labels) for e, w in zip(environments, weights, strict=True)]
    return torch.stack([n.double() / n.sum() for n in counts]).mean(0)


def debiasable(environments: Sequence[Environment], family: Family) -> bool:
    """Whether Env-PoE is tried: on tables with classes, of not too many environments."""
    x = environments[0].x
    table = isinstance(x, Tensor) and x.ndim == 2
    return family.labels > 0 and 1 < len(environments) <= MAX_ENVIRONMENTS and table


def recipe_for(
    given: GivenRecipe, method: Method, environments: Sequence[Environment], *, linear: bool = True
) -> Recipe:
    """The given recipe, the recipe of that name with the method's preferences, or the default one for tables.

    A mapping changes fields of the default one.
    """
    if isinstance(given, Recipe):
        return given
    if isinstance(given, Mapping) or given == "auto":
        return _table(environments, given if isinstance(given, Mapping) else {}, linear=linear)
    return recipe(given, method.preferences)


def _debiases(given: GivenRecipe) -> bool:
    if isinstance(given, Mapping):
        return bool(given.get("debias"))
    return given != "auto" and (recipe(given) if isinstance(given, str) else given).debias > 0


def _table(environments: Sequence[Environment], changes: Mapping[str, Any], *, linear: bool) -> Recipe:
    """Full batches where rows are few, else batches with at least four rows per environment."""
    rows = sum(len(e) for e in environments)
    rate = LINEAR_RATE if linear else RATE
    fields: dict[str, Any] = {"lr": rate, "warmup": 0.25, "schedule": "decay", "epochs": UPDATES, "step": STEP}
    if rows > FULL_BATCH_ROWS:
        batch = max(BATCH_ROWS, 4 * len(environments))
        fields |= {"batch_size": batch, "epochs": math.ceil(2 * UPDATES / math.ceil(rows / batch))}
    return recipe("full-batch", changes={**fields, **changes})
