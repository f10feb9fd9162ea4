"""Which scale of a study is shown: the one with most places filled, and after it those that add runs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from invariance.experiments.stored_runs import StoredRuns
from invariance.studies.support.base import Plan, Study
from invariance.studies.support.scales import SCALES


def plans_with_runs(
    studies: Iterable[Study], stored: StoredRuns, scales: Sequence[str] = tuple(SCALES)
) -> dict[str, list[Plan]]:
    """Every study at the scales that have runs of their own, the most complete first; all by the name of the study.

    Among equals a scale with whole data sets comes before one with smaller versions of some, then that at which most
    was run, then the larger one. A study without runs is there at the last of these scales.
    """
    plans = {study.name: [_whatever_data(study.plan(scale)) for scale in scales] for study in studies}
    held = {(name, plan.scale): stored.held(plan.identities) for name, own in plans.items() for plan in own}
    run_at: Counter[str] = Counter()
    for (_, scale), there in held.items():
        run_at[scale] += len(there)
    return {
        name: _own_runs(own, {plan.scale: held[name, plan.scale] for plan in own}, run_at) or own[-1:]
        for name, own in plans.items()
    }


def _own_runs(plans: Sequence[Plan], held: Mapping[str, set[str]], run_at: Mapping[str, int]) -> list[Plan]:
    """The plans that have a run which none before them has, each with the scales that have all its runs too."""
    order = list(SCALES)

    def rank(scale: str) -> tuple[int, bool, int, int]:
        return -len(held[scale]), SCALES[scale].smaller is not None, -run_at[scale], -order.index(scale)

    ranked = sorted(plans, key=lambda plan: rank(plan.scale))
    shown: list[Plan] = []
    covered: set[str] = set()
    for plan in ranked:
        own = held[plan.scale]
        if own - covered:
            alike = tuple(scale for scale, there in held.items() if scale != plan.scale and own <= there)
            shown.append(replace(plan, alike=alike))
            covered |= own
    return shown


def _whatever_data(plan: Plan) -> Plan:
    """The same is shown whether data are here or not."""
    return replace(plan, arms=tuple(replace(arm, waits="") if arm.spec and arm.waits else arm for arm in plan.arms))
