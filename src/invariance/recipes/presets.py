"""Recipes with a name. Each is a change to the full-batch recipe, and changes combine: ``small-batch+sam``."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args

from pydantic import ValidationError

from invariance.core.errors import BadValue, UnknownName
from invariance.core.fields import adapter
from invariance.recipes.recipe import Recipe

Protocol = Literal[
    "full-batch", "small-batch", "short", "two-phase", "debiased", "all-samples", "two-phase+all-samples"
]
"""Ways of training for which methods and data sets have values of their own; two that are joined may be a third."""
Preferences = Mapping[Protocol, Mapping[str, Any]]
"""Fields of a recipe that a method or a data set changes, by protocol."""


class Preset(NamedTuple):
    """What a recipe changes in the full-batch one, and why.

    ``protocol`` says which values of methods and data sets go with it, if any: those follow this field, never the name
    that a preset is listed under. ``differs`` says where a recipe of the ICLR 2023 paper is not as the paper has it.
    """

    about: str
    changes: Mapping[str, Any]
    protocol: Protocol | None = None
    differs: tuple[str, ...] = ()


SHORT: dict[str, Any] = {"batch_size": 1024, "epochs": 12, "lr": 1e-3, "warmup": 0.34, "schedule": "decay"}
TWO_PHASE: dict[str, Any] = {
    "batch_size": 1024,
    "penalty_batch_size": 2048,
    "epochs": 14,
    "warmup": 3 / 7,
    "reset": True,
    "lr": 1e-3,
    "schedule": {"kind": "drop", "factor": 0.2},
    "dropout": 0.2,
}
DEBIASED: dict[str, Any] = {
    "batch_size": 1024,
    "epochs": 10,
    "lr": 1e-3,
    "l2_scale": 0.1,
    "warmup": 0.0,
    "schedule": "decay",
    "debias": 2,
    "dropout": 0.2,
}

PRESETS: dict[str, Preset] = {
    "full-batch": Preset("every update sees all samples; 500 updates, the IRM literature's way", {}, "full-batch"),
    "small-batch": Preset(
        "batches of 1024 for 200 epochs, the ICLR 2023 paper's proposal; also called paper",
        {"batch_size": 1024, "epochs": 200, "lr": 1e-3, "warmup": 0.25},
        "small-batch",
    ),
    "lsgd": Preset(
        "large-batch SGD rules: ten times the rate, ramped up (Goyal et al. 2017)",
        {"lr_scale": 10.0, "lr_ramp": 0.05},
        differs=("LSGD multiplies the rate by ten, where linear scaling would say 49 (50,000 / 1,024).",),
    ),
    "lalr": Preset(
        "layer-wise adaptive rates (LAMB-like, You et al. 2020)",
        {"step": "lalr", "lr": 0.1, "lr_scale": 1.0},
        differs=(
            "LALR divides by norms, not by their squares, and steps along Adam's direction, as LAMB does. Its rate is "
            "0.1, whatever the rate of the recipe it is joined to.",
        ),
    ),
    "sam": Preset(
        "sharpness-aware gradients (Foret et al. 2021)",
        {"gradient": "sam"},
        differs=(
            "SAM takes one perturbation for the whole loss of a move, penalty included, not one per environment.",
        ),
    ),
    "default": Preset("what to start with, at present the same as two-phase", TWO_PHASE, "two-phase"),
    "short": Preset(
        "small batches for 12 epochs, the rate falling to zero once the penalty is on; minutes become seconds",
        SHORT,
        "short",
    ),
    "two-phase": Preset(
        "6 epochs of ERM in small batches learn features, then 8 epochs with the penalty in batches twice as large, a "
        "fresh optimiser and a fifth of the rate, which falls to zero; input dropout",
        TWO_PHASE,
        "two-phase",
    ),
    "all-samples": Preset(
        "another recipe, as in two-phase+all-samples, with every update on all samples; 500 updates",
        {"batch_size": None, "penalty_batch_size": None, "epochs": 500},
        "all-samples",
    ),
    "bf16": Preset(
        "another recipe, as in two-phase+bf16, with the features' matrix products in bf16; half the time where the "
        "processor has it",
        {"precision": "bf16"},
    ),
    "short-full": Preset(
        "every update sees all samples; 100 updates at four times the rate, falling to zero once the penalty is on",
        {"epochs": 100, "lr_scale": 4.0, "schedule": "decay"},
    ),
    "debiased": Preset(
        "environment-specific cues are first removed by the logit offset of Env-PoE, then the method is trained with a "
        "light penalty, input dropout and a falling rate",
        DEBIASED,
        "debiased",
    ),
    "debiased-full": Preset(
        "the same with every update on all samples: 80 of the environment classifier, as many as there, then 500",
        {**DEBIASED, "batch_size": None, "epochs": 500, "debias": 80},
        "debiased",
    ),
}
ALIASES = {"paper": "small-batch"}
"""Other names: the paper's profile is its proposal, with methods as it has them."""
EARLIER_FIELDS = {"explain": "debias"}
"""Fields as stored runs call them."""


def parts(name: str) -> list[str]:
    """The recipes that ``name`` joins by ``+``, by their own names."""
    found = [ALIASES.get(part, part) for part in name.split("+")]
    for part in found:
        if part not in PRESETS:
            raise UnknownName.of("recipe", part, [*PRESETS, *ALIASES])
    return found


def followed(name: str) -> Iterator[tuple[Preset, Protocol | None]]:
    """The full-batch recipe and those that ``name`` joins, each with the protocol that is followed from there on."""
    before: Protocol | None = None
    for part in dict.fromkeys(["full-batch", *parts(name)]):
        own = PRESETS[part].protocol
        protocol = next((known for known in get_args(Protocol) if known == f"{before}+{own}"), own)
        before = protocol or before
        yield PRESETS[part], protocol


def recipe(name: str, *preferences: Preferences, changes: Mapping[str, Any] | None = None) -> Recipe:
    """The recipe called ``name``, or several joined by ``+``, later ones winning.

    ``preferences`` are what a method or a data set changes under a recipe's protocol, later ones winning; ``changes``
    win over all.
    """
    fields: dict[str, Any] = {}
    for preset, protocol in followed(name):
        fields |= preset.changes
        for prefers in preferences:
            fields |= prefers.get(protocol, {}) if protocol else {}
    for given, value in (changes or {}).items():
        field = EARLIER_FIELDS.get(given, given)
        fields[field] = _merged(fields.get(field), value)
    if unknown := fields.keys() - Recipe.__dataclass_fields__.keys():
        raise UnknownName.of("field of a recipe", min(unknown), Recipe.__dataclass_fields__)
    try:
        return adapter(Recipe).validate_python(fields)
    except ValidationError as error:
        raise BadValue.of(error, f"recipe {name!r}") from None


def _merged(old: Any, new: Any) -> Any:
    """Fields without a kind change the kind that is there."""
    if not isinstance(new, Mapping) or "kind" in new or old is None:
        return new
    if isinstance(old, str):
        return {"kind": old, **new}
    return {**old, **new} if isinstance(old, Mapping) else new
