"""How a trial is scored: by the checkpoints that a selection rule takes, mostly without test environments."""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Literal, NamedTuple

from invariance.core.errors import UnknownName
from invariance.experiments.run import Run
from invariance.experiments.selected_runs import SelectedRuns
from invariance.training.selection import LEVEL, Checkpoint, rule


class TuningRule(NamedTuple):
    """A score of one seed, higher is better.

    ``selection`` is the rule that takes the run's checkpoint. ``score`` is given that checkpoint, and the checkpoints
    at the same place of the runs that held an environment out; None is no score, and ``unscored`` says why.
    """

    about: str
    selection: str
    measure: str
    score: Callable[[Checkpoint, Sequence[Checkpoint]], float | None]
    unscored: str = ""

    @property
    def sees_test(self) -> bool:
        """Whether the score is one of test environments."""
        return rule(self.selection).sees_test


def _invariant(checkpoint: Checkpoint, held_out: Sequence[Checkpoint]) -> float | None:
    passes = checkpoint.homogeneity is not None and checkpoint.homogeneity >= LEVEL
    return -checkpoint.risk if passes and checkpoint.risk is not None else None


def _leave_one_out(checkpoint: Checkpoint, held_out: Sequence[Checkpoint]) -> float:
    return 100 * sum(c.validation.mean for c in held_out) / len(held_out)


def _oracle(checkpoint: Checkpoint, held_out: Sequence[Checkpoint]) -> float:
    return 100 * (checkpoint.test.mean - checkpoint.test.gap)


RULES: dict[str, TuningRule] = {
    "invariant": TuningRule(
        "lowest validation risk where nothing in loss and calibration tells the training environments apart",
        "invariant",
        "− validation risk",
        _invariant,
        "the training environments differ in loss or calibration",
    ),
    "leave-one-environment-out": TuningRule(
        "highest accuracy in environments left out of training, one run for each; needs three environments",
        "leave-one-environment-out",
        "accuracy in left-out environments, %",
        _leave_one_out,
    ),
    "oracle": TuningRule(
        "highest average accuracy less the gap in the test environments", "oracle", "average − gap, test, %", _oracle
    ),
}


def tuning_rule(name: str) -> TuningRule:
    """The rule of this name."""
    if name not in RULES:
        raise UnknownName.of("tuning rule", name, RULES)
    return RULES[name]


def labelled(name: str) -> str:
    """The rule's name as it is shown, with what it saw."""
    return f"{name} (has seen test data)" if tuning_rule(name).sees_test else name


class Verdict(NamedTuple):
    """What a rule makes of a trial: the mean score over its seeds, or the reason why there is none."""

    status: Literal["finished", "pruned", "failed"]
    score: float | None = None
    reason: str = ""


def judge(name: str, runs: Sequence[Run]) -> Verdict:
    """The verdict on all runs of one trial. One seed that collapsed or diverged is enough for no score."""
    how = tuning_rule(name)
    selected = SelectedRuns.of(runs, how.selection)
    if selected.failures:
        return Verdict("failed" if "failed" in selected.failures else "pruned", reason=selected.status)
    scores = []
    for run, checkpoint in zip(selected.runs, selected.chosen, strict=True):
        place = run.history.index(checkpoint)
        others = [r for r in runs if r.spec.hold_out is not None and r.spec.seed == run.spec.seed]
        score = how.score(checkpoint, [other.history[place] for other in others])
        if score is None:
            return Verdict("pruned", reason=how.unscored)
        scores.append(score)
    return Verdict("finished", fmean(scores))
