"""ERM or an invariant method: decided by the risk in environments that were left out of training.

Each candidate is trained once for every part of the environments that is left out: one at a time, or in five parts
where there are more. Of large tables a sample takes part, so that choosing costs no more the larger a table is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from invariance.core import Batch, Environment, generator
from invariance.errors import Diverged
from invariance.estimators import defaults
from invariance.estimators.learner import Learner, some
from invariance.evaluation import outputs
from invariance.objectives import METHODS
from invariance.objectives.base import Objective

FOLDS = 5
MOST_ENVIRONMENTS, MOST_ROWS = 50, 20_000
"""How much of a large table takes part in choosing."""
DOUBT = 2.0
"""How many standard errors a gain over ERM must be worth."""

Fold = tuple[list[Environment], list[Environment]]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Candidate:
    """A method with its mean loss and mean score in each environment, trained without that environment.

    ``gain`` is how much lower its risk is than ERM's, averaged over environments, and ``error`` the standard error of
    that, over samples.
    """

    method: str
    objective: Objective
    risks: Mapping[str, float]
    scores: Mapping[str, float]
    gain: float = 0.0
    error: float = 0.0

    @property
    def risk(self) -> float:
        """The average over environments."""
        return sum(self.risks.values()) / len(self.risks)


@dataclass(frozen=True)
class Choice:
    """What was chosen, why, and among what; ERM is the first of ``candidates``."""

    method: str
    objective: Objective
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
    """The method of least risk in environments left out of training; ERM unless another gains beyond doubt."""
    if len(environments) < 3:
        reason = "with two environments, leaving one out leaves nothing to be invariant across"
        return Choice("erm", defaults.objective("erm"), reason)
    drawn = torch.randperm(len(environments), generator=generator(learner.seed, "choice"))[:MOST_ENVIRONMENTS]
    parts = folds(some([environments[i] for i in sorted(drawn.tolist())], MOST_ROWS, learner.seed), learner.seed)
    tried: list[Candidate] = []
    erm: dict[str, _Rows] = {}
    for method in defaults.CANDIDATES:
        objective = defaults.objective(method)
        try:
            rows = _left_out(learner, objective, parts)
        except Diverged as error:
            if not tried:
                raise
            say(f"{method} is out: {error}")
            continue
        erm = erm or rows
        tried.append(_compared(method, objective, rows, erm))
        say(f"{method}: risk {tried[-1].risk:.4f} in environments left out of training")
    return _decided(tried)


def _left_out(learner: Learner, objective: Objective, parts: Sequence[Fold]) -> dict[str, _Rows]:
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


def _compared(method: str, objective: Objective, rows: Mapping[str, _Rows], erm: Mapping[str, _Rows]) -> Candidate:
    gains = [erm[name].losses - own.losses for name, own in rows.items()]
    variance = sum(float(gain.var(correction=0)) / len(gain) for gain in gains)
    return Candidate(
        method,
        objective,
        {name: float(own.losses.mean()) for name, own in rows.items()},
        {name: float(own.scores.mean()) for name, own in rows.items()},
        sum(float(gain.mean()) for gain in gains) / len(gains),
        variance**0.5 / len(gains),
    )


def _decided(tried: Sequence[Candidate]) -> Choice:
    best, erm = max(tried, key=lambda candidate: candidate.gain), tried[0]
    risks = f"in environments left out of training its risk is {best.risk:.4f}, ERM's {erm.risk:.4f}"
    if best.gain <= DOUBT * best.error:
        closest = (
            "" if best is erm else f": the best of the others has {best.risk:.4f} in environments left out of training"
        )
        return Choice(
            "erm", erm.objective, f"nothing is gained over ERM's risk of {erm.risk:.4f}{closest}", tuple(tried)
        )
    return Choice(best.method, best.objective, risks, tuple(tried))
