"""How a trial is scored: by the checkpoints that a selection rule takes, mostly without test environments."""

from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Literal, NamedTuple

from invariance.core.errors import UnknownName
from invariance.experiments.run import Run
from invariance.experiments.selected_runs import SelectedRuns
from invariance.training.selection import LEVEL, Checkpoint, rule

EXTRAPOLATION = 3.5
"""How far ``invariant`` looks beyond the training environments, in units of their own spread.

From the middle of β = 0.1 and 0.2 it is 0.5, where the cue says nothing. Farther away sampling noise counts for more
than the cue does (docs/tuning.md).
"""


class Judged(NamedTuple):
    """One seed: the checkpoint that was taken, and those at its place in the runs that held an environment out."""

    checkpoint: Checkpoint
    held_out: tuple[Checkpoint, ...] = ()


class TuningRule(NamedTuple):
    """A score of a trial, higher is better.

    ``selection`` is the rule that takes the checkpoint of every seed, ``score`` a number made of them. None is no
    score, and ``unscored`` says why. ``scores_test`` says that the number is one of test environments.
    """

    about: str
    selection: str
    measure: str
    score: Callable[[Sequence[Judged]], float | None]
    unscored: str = ""
    scores_test: bool = False

    @property
    def sees_test(self) -> bool:
        """Whether test environments have a part in the score, or in the choice of checkpoints."""
        return self.scores_test or rule(self.selection).sees_test


def _invariant(seeds: Sequence[Judged]) -> float | None:
    """mean_e A^e − 3.5 (max_e A^e − min_e A^e), A averaged over seeds: a cue that misleads elsewhere helps here.

    The homogeneity test is that of the median seed. All trials of a seed share its validation samples, so one seed
    whose samples differ by chance would rule out the best of them.
    """
    if median(seed.checkpoint.homogeneity or 0.0 for seed in seeds) < LEVEL:
        return None
    names = seeds[0].checkpoint.validation.by_environment
    by_environment = [fmean(seed.checkpoint.validation.by_environment[name] for seed in seeds) for name in names]
    return 100 * (fmean(by_environment) - EXTRAPOLATION * (max(by_environment) - min(by_environment)))


def _training_domain(seeds: Sequence[Judged]) -> float:
    return 100 * fmean(seed.checkpoint.validation.mean for seed in seeds)


def _leave_one_out(seeds: Sequence[Judged]) -> float:
    return 100 * fmean(checkpoint.validation.mean for seed in seeds for checkpoint in seed.held_out)


def _test(seeds: Sequence[Judged]) -> float:
    return 100 * fmean(seed.checkpoint.test.mean - seed.checkpoint.test.gap for seed in seeds)


RULES: dict[str, TuningRule] = {
    "invariant": TuningRule(
        "highest validation accuracy, less 3.5 times its difference between the training environments, where nothing "
        "in loss and calibration tells them apart (with the median seed)",
        "invariant",
        "extrapolated validation accuracy, %",
        _invariant,
        "the training environments differ in loss or calibration",
    ),
    "training-domain": TuningRule(
        "highest validation accuracy in the training environments",
        "training-domain",
        "validation accuracy, %",
        _training_domain,
    ),
    "leave-one-environment-out": TuningRule(
        "highest accuracy in environments left out of training, one run for each; needs three environments",
        "leave-one-environment-out",
        "accuracy in left-out environments, %",
        _leave_one_out,
    ),
    "oracle": TuningRule(
        "highest average accuracy less the gap in the test environments",
        "oracle",
        "average − gap, test, %",
        _test,
        scores_test=True,
    ),
    "transfer": TuningRule(
        "the same at the checkpoint that invariant takes, for settings that are reported on another data set",
        "invariant",
        "average − gap, test, %",
        _test,
        scores_test=True,
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
    """What a rule makes of a trial: its score, or the reason why there is none."""

    status: Literal["finished", "pruned", "failed"]
    score: float | None = None
    reason: str = ""


def judge(name: str, runs: Sequence[Run]) -> Verdict:
    """The verdict on all runs of one trial. One seed that collapsed or diverged is enough for no score."""
    how = tuning_rule(name)
    selected = SelectedRuns.of(runs, how.selection)
    if selected.failures:
        return Verdict("failed" if "failed" in selected.failures else "pruned", reason=selected.status)
    seeds = []
    for run, checkpoint in zip(selected.runs, selected.chosen, strict=True):
        others = [r for r in runs if r.spec.hold_out is not None and r.spec.seed == run.spec.seed]
        place = run.history.index(checkpoint)
        seeds.append(Judged(checkpoint, tuple(other.history[place] for other in others)))
    score = how.score(seeds)
    return Verdict("pruned", reason=how.unscored) if score is None else Verdict("finished", score)
