"""What ``method="auto"`` chooses, from what every candidate costs, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from invariance.core.html import html_table
from invariance.evaluation.metrics import Criterion
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.methods.subset_erm import SubsetERM
from invariance.recipes.recipe import Recipe

PREFERENCE = {"erm": 0, "subset-erm": 1}
"""Simpler methods first: a column that is not used cannot turn."""
MIN_GAIN = 0.15
"""How much a candidate must gain over a simpler one, as a share of its expected cost."""
CERTAIN = 0.95
"""A probability that needs no mention."""
MAX_RISK = 0.99
"""A candidate with a higher risk, in units of the best constant's, is out."""


@dataclass(frozen=True)
class Candidate:
    """A method, and its cost on the rows as they are and at the adverse site, by the criterion of the choice.

    ``risk`` and ``adverse_risk`` are mean losses in units of the best constant's, after temperature scaling.
    """

    method: Method
    cost: float
    adverse_cost: float
    risk: float
    adverse_risk: float

    @property
    def method_name(self) -> str:
        """The method's name."""
        return METHODS.name(self.method)

    def expected_risk(self, criterion: Criterion, probability: float) -> float:
        """The higher risk with this probability, else that on the rows as they are; for a mean, always the latter."""
        return _expected(self.risk, self.adverse_risk, probability if criterion.worst else 0.0)

    def expected_cost(self, criterion: Criterion, probability: float) -> float:
        """The same of the cost."""
        return _expected(self.cost, self.adverse_cost, probability if criterion.worst else 0.0)


def _expected(as_it_is: float, adverse: float, probability: float) -> float:
    return as_it_is + probability * max(adverse - as_it_is, 0.0)


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why: ``method``, ``hidden`` layers and ``recipe`` give the same model by name.

    ``varying`` are the inputs of the columns whose effects vary between environments, ``p_value`` that of the test that
    none does, and ``probability`` that one does, given the data. ``supported`` is false where no candidate is of use at
    the adverse site. Of the candidates, ERM is the first.
    """

    method: Method
    reason: str
    hidden: tuple[int, ...] = ()
    recipe: Recipe | None = None
    candidates: tuple[Candidate, ...] = ()
    varying: tuple[int, ...] = ()
    p_value: float = 1.0
    probability: float = 0.0
    supported: bool = True

    @property
    def method_name(self) -> str:
        """The method's name."""
        return METHODS.name(self.method)

    def __str__(self) -> str:
        """Arguments of an estimator that give the same model: the method with its fields, and its hidden layers."""
        return f"method={self.method!r}, hidden={self.hidden!r}"

    def _repr_html_(self) -> str:
        header = ("candidate", "γ", "risk as it is", "where effects turn", "")
        rows = [
            (
                *(each.method_name, f"{gamma:,.0f}" if (gamma := getattr(each.method, "gamma", None)) else ""),
                *(each.risk, each.adverse_risk, "chosen" if each.method == self.method else ""),
            )
            for each in self.candidates
        ]
        notes = f"{self.reason[:1].upper()}{self.reason[1:]}. Risks are in units of the best constant's."
        return html_table(header, rows, title=f"Method: {self.method_name}", notes=notes)

    def to_json(self) -> dict[str, Any]:
        """Plain data that :meth:`from_json` reads back.

        In files, ``method`` is the name, and ``objective`` the fields.
        """
        recipe = TypeAdapter(Recipe | None).dump_python(self.recipe, mode="json")
        plain = {**vars(self), "candidates": [_named(vars(c)) for c in self.candidates], "recipe": recipe}
        return _named(plain)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Choice":
        """The choice that :meth:`to_json` made this of; of earlier versions, without the candidates."""
        if "recipe" not in plain:
            return cls(METHODS.load(plain["objective"]), plain["reason"])
        restored = {
            "hidden": tuple(plain["hidden"]),
            "recipe": TypeAdapter(Recipe | None).validate_python(plain["recipe"]),
            "candidates": tuple(Candidate(**_loaded(c)) for c in plain["candidates"]),
            "varying": tuple(plain["varying"]),
        }
        return cls(**{**_loaded(plain), **restored})


def _named(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {**plain, "method": METHODS.name(plain["method"]), "objective": METHODS.dump(plain["method"])}


def _loaded(plain: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in plain.items() if name != "objective"}
    return {**fields, "method": METHODS.load(plain["objective"])}


def decide(candidates: Sequence[Candidate], criterion: Criterion, probability: float = 1.0) -> Choice:
    """The candidate of the least expected cost, if it gains enough over ERM, which is the first.

    ``probability`` is that effects vary.
    """
    erm = candidates[0]
    useful = [each for each in candidates if each.expected_risk(criterion, probability) < MAX_RISK]
    if not useful:
        reason = "effects vary so much between environments that no method is of use where they turn against it"
        return Choice(erm.method, reason, candidates=tuple(candidates), supported=False)
    best = _preferred([(each, each.expected_cost(criterion, probability)) for each in useful])
    if best is erm:
        vary = "vary" if probability > CERTAIN else f"may vary (with a probability of {100 * probability:.0f} %)"
        reason = f"effects of columns {vary} between environments, but no method gains enough over ERM"
        return Choice(erm.method, reason, candidates=tuple(candidates))
    reason = (
        "where the effects that vary between environments turn against the model, its risk is "
        f"{best.adverse_risk:.2f} of a constant's, and ERM's is {erm.adverse_risk:.2f}"
    )
    return Choice(best.method, reason, candidates=tuple(candidates))


def _preferred(candidates: Sequence[tuple[Candidate, float]]) -> Candidate:
    """The least cost; but ERM, then Subset ERM of more columns, is kept unless the next gains ``MIN_GAIN`` on it."""
    best: dict[tuple[int, int], tuple[Candidate, float]] = {}
    for candidate, cost in sorted(candidates, key=lambda one: one[1]):
        best.setdefault(_place(candidate), (candidate, cost))
    (chosen, least), *others = [best[place] for place in sorted(best)]
    for other, cost in others:
        if cost <= (1 - MIN_GAIN) * least:
            chosen, least = other, cost
    return chosen


def _place(candidate: Candidate) -> tuple[int, int]:
    left_out = len(candidate.method.without) if isinstance(candidate.method, SubsetERM) else 0
    return PREFERENCE.get(candidate.method_name, len(PREFERENCE)), left_out
