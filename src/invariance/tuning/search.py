"""What a search is about: a method, where its fields are looked for, and the runs that a trial needs."""

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any

from invariance.core.errors import BadValue
from invariance.core.fields import flattened
from invariance.experiments.spec import Spec, parse_changes
from invariance.methods import METHODS
from invariance.methods.profile import by_section
from invariance.recipes.search import SearchSpace, reaching, written
from invariance.studies.support.results import held_out
from invariance.tuning.rules import labelled, tuning_rule

DIGITS = 3
"""Significant digits of the numbers that are tried, so that settings can be read and typed."""
TRANSFERS = ("method", "recipe", "model")
"""Sections whose fixed fields belong to what was found; those of the data and of the evaluation do not."""

Settings = Mapping[str, Any]
"""Values by field, as ``method.gamma``."""
Changes = Mapping[str, Mapping[str, Any]]
"""Values by section and field."""


@dataclass(frozen=True)
class Search:
    """A method on a data set by a recipe, its ``fixed`` fields, and how trials are scored."""

    data: str
    method: str
    recipe: str
    rule: str
    seeds: int = 1
    first_seed: int = 100
    changes: Changes = field(default_factory=dict)
    ranges: SearchSpace = field(default_factory=dict)
    """Beside those of the method, or in their place; these are searched as they are."""

    def __post_init__(self) -> None:
        tuning_rule(self.rule)
        if self.seeds < 1:
            raise BadValue(f"seeds = {self.seeds}; at least 1 is needed")
        if not self.space:
            raise BadValue(f"every field that a search of {self.method} varies is fixed; leave one of them free")
        for end in (0, -1):  # names and ends that no run can have are refused before anything is run
            self.spec({name: each.parts[end] for name, each in self.space.items()})

    @cached_property
    def space(self) -> SearchSpace:
        """The ranges of all fields that are not fixed.

        The method's own are widened to hold the method as it stands, by this recipe on these data. A field that is off
        there (None) is not searched.
        """
        spec = self.spec({})
        own = {
            name: reaching(each, value)
            for name, each in _by_field(METHODS[self.method].search).items()
            if (value := _value(spec, name)) is not None or None in each
        }
        fixed = dict(flattened(by_section(self.changes)))
        return {name: each for name, each in {**own, **_by_field(self.ranges)}.items() if name not in fixed}

    @property
    def fixed(self) -> tuple[str, ...]:
        """The fixed fields as ``--set`` takes them."""
        return tuple(assigned(dict(flattened(by_section(self.changes)))))

    def spec(self, settings: Settings) -> Spec:
        """The trial with these settings, its first seed."""
        changes = parse_changes([*self.fixed, *assigned(settings)])
        return Spec.of(self.data, self.method, self.recipe, self.first_seed, changes)

    @property
    def seed_numbers(self) -> range:
        """The seeds of every trial, in the order in which they are run."""
        return range(self.first_seed, self.first_seed + self.seeds)

    def runs(self, settings: Settings, seed: int) -> list[Spec]:
        """The runs of the trial with one seed: its own, and those that its rule asks for beside it."""
        own = [self.spec(settings).with_seed(seed)]
        return own + held_out(own, tuning_rule(self.rule).selection)

    @cached_property
    def profile(self) -> Settings:
        """The method as it stands: what its fields in the space are by themselves, where they lie in their ranges."""
        spec = self.spec({})
        return {name: value for name, each in self.space.items() if (value := _value(spec, name)) in each}

    @cached_property
    def name(self) -> str:
        """The study's name in its file: what is searched in words, and a hash of everything that decides it."""
        space = {name: str(each) for name, each in self.space.items()}
        about = tuning_rule(self.rule).about  # a rule that scores otherwise makes another study
        decided = [self.spec({}).trial.key, self.seeds, self.first_seed, space, about]
        digest = hashlib.blake2b(json.dumps(decided).encode(), digest_size=4).hexdigest()
        return f"{self.method} on {self.data}, {self.recipe}, by {labelled(self.rule)}, {digest}"

    def options(self, settings: Settings) -> str:
        """The trial as options of a command, for this data set or another."""
        kept = [each for each in self.fixed if each.partition(".")[0] in TRANSFERS]
        pairs = [("--set", each) for each in (*kept, *assigned(settings))]
        return shlex.join(["--recipe", self.recipe, *(word for pair in pairs for word in pair)])

    def to_json(self) -> dict[str, Any]:
        """What the study records about itself."""
        return {
            "data": self.data,
            "method": self.method,
            "recipe": self.recipe,
            "rule": labelled(self.rule),
            "sees_test": tuning_rule(self.rule).sees_test,
            "seeds": self.seeds,
            "first_seed": self.first_seed,
            "fixed": list(self.fixed),
            "space": {name: str(each) for name, each in self.space.items()},
        }


def rounded(value: Any) -> Any:
    """A number with few digits; anything else as it is."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _value(spec: Spec, name: str) -> Any:
    """What a field is by itself, as it would be tried; None where this kind of recipe has no such field."""
    try:
        return rounded(attrgetter(name)(spec))
    except AttributeError:
        return None


def assigned(settings: Settings) -> list[str]:
    """Settings as ``--set`` takes them."""
    return [f"{name}={written(value)}" for name, value in settings.items()]


def _by_field(space: SearchSpace) -> SearchSpace:
    """Ranges by the present names of their fields: ``objective.gamma`` is ``method.gamma``."""
    return {_field(name): each for name, each in space.items()}


def _field(name: str) -> str:
    ((section, fields),) = parse_changes([f"{name}=0"]).items()
    return next(field for field, _ in flattened({section: fields}))
