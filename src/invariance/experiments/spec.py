"""What decides a run completely."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, final

from pydantic import NonNegativeInt, PositiveInt, ValidationError
from pydantic.dataclasses import dataclass as validated

from invariance.core.errors import BadValue, UnknownName
from invariance.core.fields import STRICT, adapter, dumped
from invariance.data import DATA
from invariance.data.base import DataSet
from invariance.data.formats.digest import digest
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.methods.profile import EARLIER_SECTIONS, by_section, profile
from invariance.models import MODELS
from invariance.models.base import Architecture
from invariance.models.resnet import ResNet, located
from invariance.recipes.presets import EARLIER_FIELDS, recipe
from invariance.recipes.recipe import Recipe

MAX_SEED = 2**63 - 1
"""What a store's column of integers can hold."""
SECTIONS = ("data", "model", "method", "recipe", "evaluation")
STORED_NAMES = {"method": "objective"}
"""What a field is called in stored runs, where that differs."""
REVISION, DEBIASING_REVISION = 1, 3
"""Raised whenever the same spec would give other numbers than before, so that old runs are not taken for new ones.

The second is that of runs with debiasing; all others stay as they are where debiasing alone has changed.
"""


@final
@validated(frozen=True, config=STRICT)
class Evaluation:
    """What is measured, at ``checkpoints`` evenly spaced checkpoints.

    ``train_rows`` is the number of samples of each training environment that are measured. ``landscape`` > 1 also
    computes the test loss around the final weights, on a grid with that many points per side.
    """

    checkpoints: PositiveInt = 10
    train_rows: PositiveInt = 5000
    landscape: NonNegativeInt = 0


@dataclass(frozen=True)
class Spec:
    """A run, before it is run.

    ``method`` holds the method's hyper-parameters. ``hold_out`` names a training environment to select on instead of
    training on it. ``start`` is a hash of the file whose weights the model starts from, if there is one; it stays with
    the run when the file changes or goes.
    """

    data: DataSet
    model: Architecture
    method: Method
    recipe: Recipe
    recipe_name: str
    seed: int = 0
    hold_out: str | None = None
    evaluation: Evaluation = field(default_factory=Evaluation)
    start: str = ""

    def __post_init__(self) -> None:
        if type(self.seed) is not int or not 0 <= self.seed <= MAX_SEED:
            raise BadValue(f"seed = {str(self.seed)[:40]}; expected a whole number from 0 to {MAX_SEED}")
        if not (self.hold_out is None or isinstance(self.hold_out, str)):
            raise BadValue(f"hold_out = {str(self.hold_out)[:40]}; expected the name of an environment, or null")
        if not isinstance(self.recipe_name, str) or not isinstance(self.start, str):
            raise BadValue("the name of a recipe and the hash of a start must be text")

    @classmethod
    def of(
        cls,
        data: str,
        method: str,
        recipe_name: str,
        seed: int = 0,
        changes: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> "Spec":
        """From names, with changed fields by section: ``{"method": {"gamma": 1e4}}``."""
        changes = by_section(changes or {})
        if unknown := changes.keys() - set(SECTIONS):
            raise UnknownName.of("section of a run", min(unknown), SECTIONS)
        data_set = DATA.create(data, changes.get("data"))
        chosen, how = profile(method, recipe_name, data_set.preferences, profiles=data_set.profiles, changes=changes)
        model_changes = changes.get("model", {})
        default = {} if "name" in model_changes else MODELS.dump(data_set.architecture)
        model = MODELS.load({**default, **model_changes})
        evaluation = _evaluation(changes.get("evaluation", {}))
        return cls(data_set, model, chosen, how, recipe_name, seed, None, evaluation, _start(model))

    @property
    def data_name(self) -> str:
        """The data set's name."""
        return DATA.name(self.data)

    @property
    def method_name(self) -> str:
        """The method's name."""
        return METHODS.name(self.method)

    @property
    def trial(self) -> "Spec":
        """What the seeds of one row share."""
        return replace(self, seed=0, hold_out=None)

    @cached_property
    def key(self) -> str:
        """A name for the run: a hash of everything that decides it, the fingerprint of its data included."""
        plain = self.to_json()
        del plain["recipe"]["name"]
        decided = {
            "spec": plain,
            "data": self.data.fingerprint(),
            "revision": revision(self.recipe),
        }
        return hashlib.blake2b(json.dumps(decided, sort_keys=True).encode(), digest_size=12).hexdigest()

    def with_seed(self, seed: int) -> "Spec":
        """The same run in another trial."""
        return replace(self, seed=seed)

    def holding_out(self, environment: str) -> "Spec":
        """The same run without a training environment."""
        return replace(self, hold_out=environment)

    def to_json(self) -> dict[str, Any]:
        """Plain data that :meth:`from_json` reads back; fields are called as in stored runs."""
        how = dumped(self.recipe)
        for earlier, name in EARLIER_FIELDS.items():
            how[earlier] = how.pop(name)
        return {
            "data": DATA.dump(self.data),
            "model": MODELS.dump(self.model),
            STORED_NAMES["method"]: METHODS.dump(self.method),
            "recipe": {"name": self.recipe_name, **how},
            "seed": self.seed,
            "hold_out": self.hold_out,
            "evaluation": adapter(Evaluation).dump_python(self.evaluation, mode="json"),
            **({"start": self.start} if self.start else {}),
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Spec":
        """The spec that :meth:`to_json` made this of."""
        if not isinstance(plain, Mapping):
            raise BadValue(f"a run is a mapping of its fields; got {str(plain)[:40]!r}")
        known = [STORED_NAMES.get(each.name, each.name) for each in fields(cls) if each.name != "recipe_name"]
        for name in plain.keys() - set(known):
            raise UnknownName.of("field of a run", name, known)
        for name in known:
            if name not in plain and name != "start":
                raise BadValue(f"a run needs the field {name!r}; got {', '.join(plain)}")
        for name in (STORED_NAMES.get(section, section) for section in SECTIONS):
            if not isinstance(plain[name], Mapping):
                raise BadValue(f"{name} = {str(plain[name])[:40]!r}; expected a mapping of its fields")
        how = {k: v for k, v in plain["recipe"].items() if k != "name"}
        return cls(
            DATA.load(plain["data"]),
            MODELS.load(plain["model"]),
            METHODS.load(plain[STORED_NAMES["method"]]),
            recipe("full-batch", changes=how),
            plain["recipe"].get("name", ""),
            plain["seed"],
            plain["hold_out"],
            _evaluation(plain["evaluation"]),
            plain.get("start", ""),
        )


def revision(recipe: Recipe) -> int:
    """Of the numbers that runs by a recipe have."""
    return DEBIASING_REVISION if recipe.debias else REVISION


def _start(model: Architecture) -> str:
    """A hash of the file whose weights a model starts from, or nothing."""
    return digest([located(model.weights)]) if isinstance(model, ResNet) and model.weights else ""


def _evaluation(values: Mapping[str, Any]) -> Evaluation:
    known = [field.name for field in fields(Evaluation)]
    for name in values.keys() - set(known):
        raise UnknownName.of("field of an evaluation", name, known)
    try:
        return adapter(Evaluation).validate_python(values)
    except ValidationError as error:
        raise BadValue.of(error, "evaluation") from None


def parse_changes(settings: list[str]) -> dict[str, dict[str, Any]]:
    """``["method.gamma=1e4", "recipe.gradient.radius=0.1"]`` as nested plain data."""
    changes: dict[str, dict[str, Any]] = {}
    for setting in settings:
        path, equals, text = setting.partition("=")
        section, *fields = path.strip().split(".")
        section = EARLIER_SECTIONS.get(section, section)
        if not equals or not fields:
            raise BadValue(f"cannot read {setting!r}; write SECTION.FIELD=VALUE, for example method.gamma=1e4")
        if section not in SECTIONS:
            raise UnknownName.of("section of a run", section, SECTIONS)
        place = changes.setdefault(section, {})
        for name in fields[:-1]:
            place = _within(place, name, setting)
        place[fields[-1]] = _value(text)
    return changes


def _within(place: dict[str, Any], name: str, setting: str) -> dict[str, Any]:
    """The fields of a field; one that was given as a name so far is that kind."""
    if isinstance(place.get(name), str):
        place[name] = {"kind": place[name]}
    inner = place.setdefault(name, {})
    if not isinstance(inner, dict):
        raise BadValue(f"cannot read {setting!r}: {name} was set to {inner!r} before")
    return inner


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # no JSON, or none that could be meant
        return text.strip()
