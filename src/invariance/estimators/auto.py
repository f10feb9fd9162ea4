"""ERM or an invariant method: decided by the risk in environments that were left out of training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from invariance.core import Batch, Environment, generator
from invariance.errors import Diverged
from invariance.estimators import defaults
from invariance.estimators.learner import Learner
from invariance.evaluation import outputs
from invariance.objectives.base import Objective

FOLDS = 5
"""In how many parts environments are left out, one part after another."""

Fold = tuple[list[Environment], list[Environment]]


@dataclass(frozen=True)
class Candidate:
    """A method and its risk (mean loss) and score in every environment, each time trained without it."""

    method: str
    objective: Objective
    risks: dict[str, float]
    scores: dict[str, float]
    gain: float = 0.0
    """How much lower the risk is than ERM's, on average over environments."""
    error: float = 0.0
    """The standard error of the gain, over samples."""

    @property
    def risk(self) -> float:
        """The average over environments."""
        return sum(self.risks.values()) / len(self.risks)


@dataclass(frozen=True)
class Choice:
    """What was chosen, why, and among what."""

    method: str
    objective: Objective
    reason: str
    candidates: tuple[Candidate, ...] = ()


def folds(environments: Sequence[Environment], seed: int, most: int = FOLDS) -> list[Fold]:
    """Environments to train on and environments left out: one at a time, or in ``most`` parts where there are more."""
    order = torch.randperm(len(environments), generator=generator(seed, "folds")).tolist()
    parts = [set(order[start::most]) for start in range(min(most, len(environments)))]
    return [
        ([e for i, e in enumerate(environments) if i not in part], [environments[i] for i in sorted(part)])
        for part in parts
    ]


def left_out(
    learner: Learner, objective: Objective, parts: Sequence[Fold]
) -> tuple[list[str], list[Tensor], list[Tensor]]:
    """Names of the left-out environments, and loss and score of each of their rows."""
    names, losses, scores = [], [], []
    for train, held in parts:
        model = learner.fit(objective, train, checkpoints=1).model
        batch = Batch.of(held, learner.family)
        f = outputs(model, batch.x)
        names += [e.name for e in held]
        losses += batch.loss(f).double().split(batch.counts)
        scores += learner.family.score(f, batch.y).double().split(batch.counts)
    return names, losses, scores


def choose(learner: Learner, environments: Sequence[Environment], say: Callable[[str], None]) -> Choice:
    """The method of least left-out risk; ERM unless a gain over it is beyond doubt."""
    erm = defaults.objective("erm")
    if len(environments) < 3:
        reason = f"{len(environments)} environments: leaving one out leaves nothing to be invariant across"
        return Choice("erm", erm, reason)
    parts = folds(environments, learner.seed)
    tried: list[Candidate] = []
    reference: list[Tensor] = []
    for name, objective in defaults.candidates():
        try:
            names, losses, scores = left_out(learner, objective, parts)
        except Diverged as error:
            say(f"{name}: {error}")
            continue
        reference = reference or losses
        gains = [before - now for before, now in zip(reference, losses, strict=True)]
        gain = float(torch.stack([g.mean() for g in gains]).mean())
        error = float(torch.stack([g.var(correction=0) / len(g) for g in gains]).sum().sqrt()) / len(gains)
        risks = {n: float(loss.mean()) for n, loss in zip(names, losses, strict=True)}
        tried.append(
            Candidate(
                name, objective, risks, {n: float(s.mean()) for n, s in zip(names, scores, strict=True)}, gain, error
            )
        )
        say(f"{name}: risk {tried[-1].risk:.4f} in environments left out of training")
    best = max(tried, key=lambda c: c.gain)
    if best.gain <= 2 * best.error:
        return Choice("erm", erm, "nothing is gained over ERM", tuple(tried))
    return Choice(best.method, best.objective, f"risk {best.risk:.4f} < {tried[0].risk:.4f}", tuple(tried))
