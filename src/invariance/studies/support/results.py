"""From a plan to its runs and back: what to run, and what a store holds of it."""

from collections.abc import Container, Sequence

from invariance.core.errors import BadValue
from invariance.experiments.spec import Spec
from invariance.experiments.stored_runs import StoredRuns
from invariance.studies.support.base import Arm, Plan, Results
from invariance.training.selection import rule


def specs(plan: Plan, seeds: int, only: Sequence[str] = (), *, first_seed: int = 0) -> list[Spec]:
    """Every run that a plan needs, each once; arms that wait for something need none.

    ``only`` keeps the arms that have all of these as their method, data set or setting.
    """
    if seeds < 1:
        raise BadValue(f"seeds = {seeds}; at least 1 is needed")
    trials = range(first_seed, first_seed + min(seeds, plan.study.most_seeds or seeds))
    arms = [arm for arm in chosen_arms(plan, only) if arm.spec and not arm.waits]
    needed = [arm.spec.with_seed(seed) for arm in arms if arm.spec for seed in trials]
    return list({spec.key: spec for spec in needed}.values())


def chosen_arms(plan: Plan, only: Sequence[str] = ()) -> list[Arm]:
    """The arms that have all of these as their method, data set or setting."""
    asked = {name.lower() for name in only}
    return [arm for arm in plan.arms if asked <= {arm.method.lower(), arm.data.lower(), arm.setting.lower()}]


def held_out(needed: Sequence[Spec], selection: str) -> list[Spec]:
    """The runs without one training environment each that a selection rule asks for beside these; mostly none."""
    if not rule(selection).holds_out:
        return []
    extra = []
    for spec in needed:
        benchmark = spec.data.load(spec.seed)
        names = [environment.name for environment in benchmark.train]
        benchmark.holding_out(names[0])  # refuses too few environments before anything runs
        extra += [spec.holding_out(name) for name in names]
    return extra


def refuse_held_out(selection: str) -> None:
    """Refuse a rule that needs runs which no study of the catalogue makes."""
    if rule(selection).holds_out:
        raise BadValue(f"{selection} needs runs that hold environments out, and studies make none; use another rule")


def results(
    plan: Plan,
    stored: StoredRuns,
    selection: str = "invariant",
    *,
    with_collapsed: bool = False,
    seeds: Container[int] | None = None,
) -> Results:
    """The runs of a plan's arms in the store: of these seeds, or of all that there are."""
    arms = {arm.identity: arm.spec for arm in plan.arms if arm.spec}
    trials = {name: trial for name, spec in arms.items() if (trial := stored.trial(spec, name))}
    rows = {
        name: row
        for name, trial in trials.items()
        if (row := stored.select(trial, selection, with_collapsed=with_collapsed, seeds=seeds))
    }
    return Results(plan, selection, rows, with_collapsed)
