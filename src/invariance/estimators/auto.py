"""ERM or an invariant method: decided by the risk in environments that were left out of training.

Each candidate is trained once for every part of the environments that is left out: one at a time, or in five parts
where there are more. Of large tables a sample takes part, so that choosing costs no more the larger a table is.

What counts is the risk beyond the worst: max_e R^e + (max_e R^e − mean_e R^e), which an environment has that is as much
worse than the worst one as that is worse than the average. The average alone says little: what misleads in the next
environment helps in most of those that are there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from invariance.core.batch import Batch
from invariance.core.environment import Environment
from invariance.core.errors import Diverged
from invariance.core.seeding import generator
from invariance.estimators import defaults
from invariance.estimators.learner import Learner, some
from invariance.evaluation.scores import outputs
from invariance.methods import METHODS
from invariance.methods.base import Method

FOLDS = 5
MOST_ENVIRONMENTS, MOST_ROWS = 50, 20_000
"""How much of a large table takes part in choosing."""
DOUBT, LEAST = 2.0, 0.05
"""How many standard errors a gain over ERM must be worth, and how much it must be."""

Fold = tuple[list[Environment], list[Environment]]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Candidate:
    """A method with its mean loss and mean score in each environment, trained without that environment.

    ``gain`` is how much lower its risk beyond the worst is than ERM's, and ``error`` the standard error of that over
    samples, with the worst environment that of ERM.
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
    def beyond(self) -> float:
        """The risk beyond the worst."""
        return 2 * self.worst - self.risk

    def __str__(self) -> str:
        """Its risks, as they are told."""
        return f"{self.worst:.4f} at worst and {self.risk:.4f} on average"


@dataclass(frozen=True)
class Choice:
    """What was chosen, why, and among what; ERM is the first of ``candidates``."""

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
        tried = [Candidate(**{**c, "objective": METHODS.load(c["objective"])}) for c in plain["candidates"]]
        return cls(plain["method"], METHODS.load(plain["objective"]), plain["reason"], tuple(tried))


class _Rows(NamedTuple):
    """Loss and score of each row of a left-out environment, times what it weighs there."""

    losses: Tensor
    scores: Tensor


def folds(environments: Sequence[Environment], seed: int) -> list[Fold]:
    """Environments to train on and environments left out; each is left out once."""
    order = torch.randperm(len(environments), generator=generator(seed, "folds")).tolist()
    parts = [set(order[start::FOLDS]) for start in range(min(FOLDS, len(environments)))]
    return [
        ([e for i, e in enumerate(environments) if i not in part], [environments[i] for i in sorted(part)])
        for part in parts
    ]


def choose(learner: Learner, environments: Sequence[Environment], say: Say) -> Choice:
    """The method of least risk beyond the worst environment left out of training; ERM unless it gains beyond doubt."""
    if len(environments) < 3:
        reason = "with two environments, leaving one out leaves nothing to be invariant across"
        return Choice("erm", defaults.objective("erm"), reason)
    drawn = torch.randperm(len(environments), generator=generator(learner.seed, "choice"))[:MOST_ENVIRONMENTS]
    parts = folds(some([environments[i] for i in sorted(drawn.tolist())], MOST_ROWS, learner.seed), learner.seed)
    tried: list[Candidate] = []
    erm: dict[str, _Rows] = {}
    for method, objective in defaults.candidates(environments, learner.family).items():
        try:
            rows = _left_out(learner, objective, parts)
        except Diverged as error:
            if not tried:
                raise
            say(f"{method} is out: {error}")
            continue
        erm = erm or rows
        found = Candidate(method, objective, _means(rows, "losses"), _means(rows, "scores"))
        tried.append(_compared(found, rows, tried[0], erm) if tried else found)
        say(f"{method}: risk {found} in environments left out of training")
    return decide(tried)


def _left_out(learner: Learner, objective: Method, parts: Sequence[Fold]) -> dict[str, _Rows]:
    found = {}
    for train, held in parts:
        model = learner.fit(objective, train, checkpoints=1).model
        batch = Batch.of(held, learner.family)
        f = outputs(model, batch.x)
        losses, scores = batch.loss(f).double(), learner.family.score(f, batch.y).double()
        for e, loss, score in zip(held, losses.split(batch.counts), scores.split(batch.counts), strict=True):
            share = 1.0 if e.weight is None else e.weight.double() / e.weight.double().mean()
            found[e.name] = _Rows(share * loss, share * score)
    return found


def _means(rows: Mapping[str, _Rows], what: str) -> dict[str, float]:
    return {name: float(getattr(own, what).mean()) for name, own in rows.items()}


def _compared(found: Candidate, rows: Mapping[str, _Rows], erm: Candidate, erm_rows: Mapping[str, _Rows]) -> Candidate:
    worst, variance = max(erm.risks, key=erm.risks.__getitem__), 0.0
    for name in rows:
        share = (2 if name == worst else 0) - 1 / len(rows)
        gains = share * (erm_rows[name].losses - rows[name].losses)
        variance += float(gains.var(correction=0)) / len(gains)
    return replace(found, gain=erm.beyond - found.beyond, error=variance**0.5)


def decide(tried: Sequence[Candidate]) -> Choice:
    """The candidate that gains most, if that is beyond doubt and matters; otherwise ERM, the first."""
    best, erm = max(tried, key=lambda candidate: candidate.gain), tried[0]
    if best.gain > max(LEAST, DOUBT * best.error):
        reason = f"its risk is {best} in environments left out of training, ERM's {erm}"
        return Choice(best.method, best.objective, reason, tuple(tried))
    reason = f"nothing is gained over ERM, whose risk is {erm} in environments left out of training"
    others = sorted(tried[1:], key=lambda candidate: -candidate.gain)
    closest = f"; that of {others[0].method}, the best of the others, is {others[0]}" if others else ""
    return Choice("erm", erm.objective, reason + closest, tuple(tried))
