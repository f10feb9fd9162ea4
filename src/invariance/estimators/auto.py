"""ERM or an invariant method: decided by the risk in environments that were left out of training.

Each candidate is trained once per fold of the environments: one is left out at a time, or one fold of five where there
are more. Large tables are subsampled, so that the choice does not cost more on a larger table.

Candidates are compared by their extrapolated worst-case risk, max_e R^e + (max_e R^e − mean_e R^e): the risk in an
environment that is as much worse than the worst one as that is worse than the average. The average alone says little: a
cue that misleads in the next environment helps in most of the known ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from invariance.core.batch import Batch
from invariance.core.environment import Environment, environment_folds, leave_out
from invariance.core.errors import Diverged
from invariance.core.families import Family
from invariance.core.seeding import generator
from invariance.estimators import defaults
from invariance.estimators.learner import Fit, Learner, Trained, subsample
from invariance.evaluation.scores import Scores, outputs
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.models.base import Model

FOLDS = 5
MAX_ENVIRONMENTS, MAX_ROWS = 50, 20_000
"""Environments and rows of a large table that the choice is based on."""
MIN_STANDARD_ERRORS, MIN_GAIN = 2.0, 0.05
"""How many standard errors a gain over ERM must exceed, and how large it must be."""

Fold = tuple[tuple[Environment, ...], tuple[Environment, ...]]
Log = Callable[[str], None]


@dataclass(frozen=True)
class Candidate:
    """A method with its mean loss and mean score in each environment, trained without that environment.

    ``method`` is its name, ``objective`` the method with its hyperparameters, as in stored runs. ``gain``
    is how much lower its extrapolated worst-case risk is than ERM's, and ``error`` the standard error of that gain over
    samples, with ERM's worst environment held fixed.
    """

    method: str
    objective: Method
    risks: Mapping[str, float]
    scores: Mapping[str, float]
    gain: float = 0.0
    error: float = 0.0

    @property
    def risk(self) -> float:
        """The average over environments."""
        return sum(self.risks.values()) / len(self.risks)

    @property
    def worst(self) -> float:
        """The risk in the environment where it is highest."""
        return max(self.risks.values())

    @property
    def extrapolated_worst_risk(self) -> float:
        """The risk in an environment as much worse than the worst as that is worse than the average."""
        return 2 * self.worst - self.risk

    def __str__(self) -> str:
        """Its risks, as messages show them."""
        return f"{self.worst:.4f} at worst and {self.risk:.4f} on average"


@dataclass(frozen=True)
class Choice:
    """The method that was chosen, the reason, and the candidates, of which ERM is the first."""

    method: str
    objective: Method
    reason: str
    candidates: tuple[Candidate, ...] = ()

    @property
    def scores(self) -> Mapping[str, float]:
        """Of the chosen method in each environment, trained without it."""
        return next((c.scores for c in self.candidates if c.objective == self.objective), {})

    def to_json(self) -> dict[str, Any]:
        """Plain data that :meth:`from_json` reads back."""
        plain = [{**vars(c), "objective": METHODS.dump(c.objective)} for c in self.candidates]
        return {**vars(self), "objective": METHODS.dump(self.objective), "candidates": plain}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Choice":
        """The choice that :meth:`to_json` made this of."""
        candidates = [Candidate(**{**c, "objective": METHODS.load(c["objective"])}) for c in plain["candidates"]]
        return cls(plain["method"], METHODS.load(plain["objective"]), plain["reason"], tuple(candidates))


class _LeftOut(NamedTuple):
    """By environment, of a model trained without it: the loss of each row times its relative weight; the score."""

    losses: dict[str, Tensor]
    scores: dict[str, float]


def folds(environments: Sequence[Environment], seed: int) -> list[Fold]:
    """Environments to train on and environments left out; each is left out once."""
    order = torch.randperm(len(environments), generator=generator(seed, "folds")).tolist()
    return [leave_out(environments, {environments[i].name for i in fold}) for fold in environment_folds(order, FOLDS)]


def choose(learner: Learner, environments: Sequence[Environment], log: Log) -> Choice:
    """The method of least extrapolated worst-case risk; ERM unless the gain is significant and large enough."""
    if len(environments) < 3:
        reason = "with two environments, leaving one out leaves only one to train on"
        return Choice("erm", defaults.objective("erm"), reason)
    drawn = torch.randperm(len(environments), generator=generator(learner.seed, "choice"))[:MAX_ENVIRONMENTS]
    sample = subsample([environments[i] for i in sorted(drawn.tolist())], MAX_ROWS, learner.seed)
    splits = folds(sample, learner.seed)
    methods = defaults.candidates(environments, learner.family)
    fits = [Fit(objective, train) for objective in methods.values() for train, _ in splits]
    models = learner.fit_all(fits, checkpoints=1)
    candidates: list[Candidate] = []
    erm_result: _LeftOut | None = None
    for method, objective in methods.items():
        trained = list(islice(models, len(splits)))
        if error := next((each for each in trained if isinstance(each, Diverged)), None):
            if not candidates:
                raise error
            log(f"{method} is not a candidate: {error}")
            continue
        result = _left_out([each.model for each in trained if isinstance(each, Trained)], splits, learner.family)
        erm_result = erm_result or result
        risks = {name: float(losses.mean()) for name, losses in result.losses.items()}
        candidate = Candidate(method, objective, risks, result.scores)
        candidates.append(_compared(candidate, result, candidates[0], erm_result) if candidates else candidate)
        log(f"{method}: risk {candidate} in environments left out of training")
    return decide(candidates)


def _left_out(models: Sequence[Model], splits: Sequence[Fold], family: Family) -> _LeftOut:
    result = _LeftOut({}, {})
    for model, (_, held_out) in zip(models, splits, strict=True):
        batch = Batch.of(held_out, family)
        f = outputs(model, batch.x)
        for e, loss in zip(held_out, batch.loss(f).double().split(batch.counts), strict=True):
            weight = 1.0 if e.weight is None else e.weight.double() / e.weight.double().mean()
            result.losses[e.name] = weight * loss
        result.scores.update(Scores.of_batch(batch, f, [e.name for e in held_out]).by_environment)
    return result


def _compared(candidate: Candidate, result: _LeftOut, erm: Candidate, erm_result: _LeftOut) -> Candidate:
    worst, variance = max(erm.risks, key=erm.risks.__getitem__), 0.0
    for name, losses in result.losses.items():
        coefficient = (2 if name == worst else 0) - 1 / len(result.losses)
        gains = coefficient * (erm_result.losses[name] - losses)
        variance += float(gains.var(correction=0)) / len(gains)
    gain = erm.extrapolated_worst_risk - candidate.extrapolated_worst_risk
    return replace(candidate, gain=gain, error=variance**0.5)


def decide(candidates: Sequence[Candidate]) -> Choice:
    """The candidate that gains most, if its gain is significant and large enough; otherwise ERM, the first."""
    best, erm = max(candidates, key=lambda candidate: candidate.gain), candidates[0]
    if best.gain > max(MIN_GAIN, MIN_STANDARD_ERRORS * best.error):
        reason = f"its risk (mean loss) is {best} in environments left out of training, and ERM's is {erm}"
        return Choice(best.method, best.objective, reason, tuple(candidates))
    reason = f"no method gains enough over ERM, whose risk (mean loss) is {erm} in environments left out of training"
    others = sorted(candidates[1:], key=lambda candidate: -candidate.gain)
    closest = f"; the risk of the next best, {others[0].objective.title}, is {others[0]}" if others else ""
    return Choice("erm", erm.objective, reason + closest, tuple(candidates))
