"""``method="auto"``: ERM, or an invariant method where effects of columns vary between environments.

1. ERM is trained on parts of the rows and tested on the rest, as a linear model and with a hidden layer, which is used
   only if it is clearly better.
2. Effects of columns are compared between environments (`adverse.py`). Where none varies, nothing speaks against ERM.
3. Otherwise every candidate is trained, and scored on the rows as they are and at the adverse site, where the effects
   that vary turn against the model. The worse of the two counts, or the rows as they are for a mean over environments.
   A candidate that is no better than a constant is out. ERM is kept, and then Subset ERM, the fewer columns it leaves
   out the better, unless another one gains ``MIN_GAIN``.

Large tables are subsampled, so that the choice does not cost more on a larger table.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from invariance.core.batch import Batch
from invariance.core.environment import Environment, environment_folds, leave_out
from invariance.core.errors import Diverged
from invariance.core.html import html_table
from invariance.core.seeding import generator
from invariance.estimators import defaults
from invariance.estimators.adverse import AdverseSite, adverse_site
from invariance.estimators.calibration import tempered
from invariance.estimators.learner import Fit, Learner, subsample
from invariance.evaluation.metrics import Criterion, relative_risk
from invariance.evaluation.scores import outputs
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.methods.subset_erm import SubsetERM
from invariance.models.base import Model
from invariance.recipes.recipe import Recipe

FOLDS = 5
ROW_FOLDS = 3
"""Parts of the rows, each of which ERM is tested on once."""
MAX_ENVIRONMENTS, MAX_ROWS = 50, 20_000
"""Environments and rows of a large table that the choice is based on."""
MIN_LAYER_GAIN, MIN_STANDARD_ERRORS = 0.01, 2.0
"""A hidden layer must lower the mean loss by this share, and by as many standard errors."""
PREFERENCE = {"erm": 0, "subset-erm": 1}
"""Simpler methods first: a column that is not used cannot turn."""
MIN_GAIN = 0.1
"""How much a candidate must gain over a simpler one, as a share of its cost."""
SUBSETS = (1, 2, 3)
"""How many columns may be left out, beside all whose effects vary."""
MAX_RISK = 0.99
"""A candidate with a higher risk, in units of the best constant's, is out."""

Fold = tuple[tuple[Environment, ...], tuple[Environment, ...]]
Log = Callable[[str], None]
Watch = Callable[["Candidate", Model], None]


@dataclass(frozen=True)
class Candidate:
    """A method, and its cost on the rows as they are and at the adverse site, by the criterion of the choice.

    ``method`` is its name, ``objective`` the method with its fields. ``risk`` and ``adverse_risk`` are mean losses in
    units of the best constant's, after temperature scaling.
    """

    method: str
    objective: Method
    cost: float
    adverse_cost: float
    risk: float
    adverse_risk: float

    def risk_by(self, criterion: Criterion) -> float:
        """The higher risk, or that on the rows as they are for a mean over environments."""
        return max(self.risk, self.adverse_risk) if criterion.worst else self.risk

    def cost_by(self, criterion: Criterion) -> float:
        """The higher cost, or that on the rows as they are for a mean over environments."""
        return max(self.cost, self.adverse_cost) if criterion.worst else self.cost


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why: ``objective``, ``hidden`` layers and ``recipe`` give the same model by name.

    ``varying`` are the inputs of the columns whose effects vary between environments, ``p_value`` that of the test that
    none does. ``supported`` is false where no candidate is of use at the adverse site. Of the candidates, ERM is the
    first.
    """

    method: str
    objective: Method
    reason: str
    hidden: tuple[int, ...] = ()
    recipe: Recipe | None = None
    candidates: tuple[Candidate, ...] = ()
    varying: tuple[int, ...] = ()
    p_value: float = 1.0
    supported: bool = True

    def __str__(self) -> str:
        """What gives the same model by name: the method, its fields, and its hidden layers."""
        fields = {name: value for name, value in METHODS.dump(self.objective).items() if name != "name"}
        fields |= {"hidden": self.hidden}
        fields = {k: "+".join(map(str, v)) if isinstance(v, list | tuple) else v for k, v in fields.items()}
        return f"{self.method} ({', '.join(f'{name}={value}' for name, value in fields.items())})"

    def _repr_html_(self) -> str:
        header = ("candidate", "γ", "risk as it is", "where effects turn", "")
        rows = [
            (
                *(each.method, f"{gamma:,.0f}" if (gamma := getattr(each.objective, "gamma", None)) else ""),
                *(each.risk, each.adverse_risk, "chosen" if each.objective == self.objective else ""),
            )
            for each in self.candidates
        ]
        notes = f"{self.reason[:1].upper()}{self.reason[1:]}. Risks are in units of the best constant's."
        return html_table(header, rows, title=f"Method: {self.method}", notes=notes)

    def to_json(self) -> dict[str, Any]:
        """Plain data that :meth:`from_json` reads back."""
        plain = [{**vars(c), "objective": METHODS.dump(c.objective)} for c in self.candidates]
        recipe = TypeAdapter(Recipe | None).dump_python(self.recipe, mode="json")
        return {**vars(self), "objective": METHODS.dump(self.objective), "candidates": plain, "recipe": recipe}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Choice":
        """The choice that :meth:`to_json` made this of; of earlier versions, without the candidates."""
        objective = METHODS.load(plain["objective"])
        if "recipe" not in plain:
            return cls(plain["method"], objective, plain["reason"])
        candidates = [Candidate(**{**c, "objective": METHODS.load(c["objective"])}) for c in plain["candidates"]]
        restored = {
            "objective": objective,
            "hidden": tuple(plain["hidden"]),
            "recipe": TypeAdapter(Recipe | None).validate_python(plain["recipe"]),
            "candidates": tuple(candidates),
            "varying": tuple(plain["varying"]),
        }
        return cls(**{**plain, **restored})


def folds(environments: Sequence[Environment], seed: int) -> list[Fold]:
    """Environments to train on and environments left out; each is left out once."""
    order = torch.randperm(len(environments), generator=generator(seed, "folds")).tolist()
    return [leave_out(environments, {environments[i].name for i in fold}) for fold in environment_folds(order, FOLDS)]


def choose(
    learner: Learner,
    environments: Sequence[Environment],
    criterion: Criterion,
    log: Log,
    layers: Sequence[tuple[int, ...]] = (),
    parts: Sequence[slice] = (),
    *,
    watch: Watch = lambda candidate, model: None,
) -> Choice:
    """The method for these environments; ``layers`` are hidden layers to try beside those of the learner.

    ``parts`` are the inputs of each column, where one may have several; ``watch`` is shown every candidate and its
    model.
    """
    drawn = torch.randperm(len(environments), generator=generator(learner.seed, "choice"))[:MAX_ENVIRONMENTS]
    sample = subsample([environments[i] for i in sorted(drawn.tolist())], MAX_ROWS, learner.seed)
    erm = defaults.objective("erm", entropy=defaults.relative_entropy(sample, learner.family))
    learner, f = _architecture(learner, erm, sample, layers)
    log(f"hidden layers: {learner.hidden or 'none'}")
    adverse = adverse_site(sample, learner.family, f, parts)
    if adverse is None:
        reason = "no effect of a column varies between environments by more than chance explains"
        chosen = Choice("erm", erm, reason)
    else:
        methods = defaults.candidates(sample, learner.family, subsets(adverse.columns, sample[0].x.shape[1]))
        candidates = []
        for candidate, model in _scored(learner, methods, sample, adverse, criterion, log):
            watch(candidate, model)
            candidates.append(candidate)
        varying = tuple(i for column in adverse.columns for i in column)
        chosen = replace(decide(candidates, criterion), varying=varying, p_value=adverse.p_value)
    return replace(chosen, hidden=learner.hidden, recipe=learner.recipe(chosen.objective, environments))


def subsets(varying: Sequence[tuple[int, ...]], inputs: int) -> list[tuple[int, ...]]:
    """Inputs of columns to leave out together: of the most significant one, of the first few, and of all that vary."""
    sizes = sorted({min(size, len(varying)) for size in (*SUBSETS, len(varying))} - {0})
    found = [tuple(sorted(i for column in varying[:size] for i in column)) for size in sizes]
    return [subset for subset in found if len(subset) < inputs]


def _architecture(
    learner: Learner, erm: Method, sample: Sequence[Environment], layers: Sequence[tuple[int, ...]]
) -> tuple[Learner, list[Tensor]]:
    """The learner with the hidden layers that are best for ERM, and its outputs on rows not trained on."""
    best, f = learner, _cross_fitted(learner, erm, sample)
    batch = Batch.of(sample, learner.family)
    for hidden in layers:
        other = replace(learner, hidden=hidden)
        own = _cross_fitted(other, erm, sample)
        loss = batch.loss(torch.cat(f))
        gain = loss - batch.loss(torch.cat(own))
        if gain.mean() > max(MIN_LAYER_GAIN * loss.mean(), MIN_STANDARD_ERRORS * gain.std() / len(gain) ** 0.5):
            best, f = other, own
    return best, f


def _cross_fitted(learner: Learner, erm: Method, sample: Sequence[Environment]) -> list[Tensor]:
    """ERM's outputs on every row, by a model that was not trained on it, [n, K] for each environment."""
    f = [torch.zeros(len(e), learner.family.outputs) for e in sample]
    parts = [torch.arange(len(e)) % min(ROW_FOLDS, len(e)) for e in sample]
    rests = [
        tuple(e.take((part != k).nonzero().squeeze(1)) for e, part in zip(sample, parts, strict=True) if len(e) > 1)
        for k in range(ROW_FOLDS)
    ]
    for k, trained in enumerate(learner.fit_all([Fit(erm, rest) for rest in rests], checkpoints=1)):
        if isinstance(trained, Diverged):
            raise trained
        for e, part, own in zip(sample, parts, f, strict=True):
            rows = (part == k).nonzero().squeeze(1)
            if len(rows):
                own[rows] = outputs(trained.model, e.x[rows]).float().cpu()
    return f


def _scored(
    learner: Learner,
    methods: Mapping[str, Sequence[Method]],
    sample: Sequence[Environment],
    adverse: AdverseSite,
    criterion: Criterion,
    log: Log,
) -> Iterator[tuple[Candidate, Model]]:
    """Every candidate that can be trained, and its model."""
    named = [(method, objective) for method, objectives in methods.items() for objective in objectives]
    fits = learner.fit_all([Fit(objective, tuple(sample)) for _, objective in named], checkpoints=1)
    for (method, objective), trained in zip(named, fits, strict=True):
        if isinstance(trained, Diverged):
            if method == "erm":
                raise trained
            log(f"{method} is not a candidate: {trained}")
            continue
        candidate = _candidate(method, objective, trained.model, learner, (sample, adverse.environments), criterion)
        log(f"{method}: {criterion} costs {candidate.cost:.3f}, at the adverse site {candidate.adverse_cost:.3f}")
        yield candidate, trained.model


def _candidate(
    method: str,
    objective: Method,
    model: Model,
    learner: Learner,
    sites: tuple[Sequence[Environment], Sequence[Environment]],
    criterion: Criterion,
) -> Candidate:
    costs, risks, temperature = [], [], None
    for environments in sites:
        batch = Batch.of(environments, learner.family)
        predicted, temperature = tempered(outputs(model, batch.x).cpu(), batch.y.cpu(), learner.family, temperature)
        weight = None if batch.weight is None else batch.weight.double().cpu().numpy()
        y = batch.y.cpu().numpy()
        costs.append(criterion.cost(predicted, y, weight))
        risks.append(relative_risk(predicted, y, weight))
    return Candidate(method, objective, costs[0], costs[1], risks[0], risks[1])


def decide(candidates: Sequence[Candidate], criterion: Criterion) -> Choice:
    """The candidate of the least cost, if it gains enough over ERM, which is the first."""
    erm = candidates[0]
    useful = [candidate for candidate in candidates if candidate.risk_by(criterion) < MAX_RISK]
    if not useful:
        reason = "effects vary so much between environments that no method is of use where they turn against it"
        return Choice("erm", erm.objective, reason, candidates=tuple(candidates), supported=False)
    best = _preferred(useful, criterion)
    if best is erm:
        reason = "effects of columns vary between environments, but no method gains enough over ERM"
        return Choice("erm", erm.objective, reason, candidates=tuple(candidates))
    reason = (
        "where the effects that vary between environments turn against the model, its risk is "
        f"{best.adverse_risk:.2f} of a constant's, and ERM's is {erm.adverse_risk:.2f}"
    )
    return Choice(best.method, best.objective, reason, candidates=tuple(candidates))


def _preferred(candidates: Sequence[Candidate], criterion: Criterion) -> Candidate:
    """The least cost; but ERM, then Subset ERM of more columns, is kept unless the next gains ``MIN_GAIN`` on it."""
    best: dict[tuple[int, int], Candidate] = {}
    for candidate in sorted(candidates, key=lambda one: one.cost_by(criterion)):
        best.setdefault(_place(candidate), candidate)
    chosen, *others = [best[place] for place in sorted(best)]
    for other in others:
        chosen = other if other.cost_by(criterion) <= (1 - MIN_GAIN) * chosen.cost_by(criterion) else chosen
    return chosen


def _place(candidate: Candidate) -> tuple[int, int]:
    left_out = len(candidate.objective.without) if isinstance(candidate.objective, SubsetERM) else 0
    return PREFERENCE.get(candidate.method, len(PREFERENCE)), left_out
