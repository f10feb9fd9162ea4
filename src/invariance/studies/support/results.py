"""From a study to its runs and back: what to run, and what a store holds of it."""

from collections.abc import Sequence
from dataclasses import replace

from invariance.core.errors import BadValue
from invariance.experiments.comparison import ComparisonRow
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store
from invariance.studies.support.base import Results, Study
from invariance.training.selection import rule


def specs(study: Study, scale: str, seeds: int, only: Sequence[str] = ()) -> list[Spec]:
    """Every run that a study needs, each once; arms that wait for something need none.

    ``only`` keeps the arms that have all of these as their method, data set or setting.
    """
    if seeds < 1:
        raise BadValue(f"seeds = {seeds}; at least 1 is needed")
    each = range(min(seeds, study.most_seeds or seeds))
    asked = {name.lower() for name in only}
    arms = [arm for arm in study.arms(scale) if asked <= {arm.method.lower(), arm.data.lower(), arm.setting.lower()}]
    wanted = [replace(arm.spec, seed=seed) for arm in arms if arm.spec for seed in each]
    return list({spec.key: spec for spec in wanted}.values())


def possible(selection: str) -> None:
    """Refuse a rule that needs runs which no study makes."""
    if rule(selection).holds_out:
        raise BadValue(f"{selection} needs runs that hold environments out, and studies make none; use another rule")


def results(study: Study, scale: str, store: Store, selection: str = "invariant") -> Results:
    """All runs of the study's arms in the store, of any seed."""
    possible(selection)
    keys = dict.fromkeys(arm.spec.trial.key for arm in study.arms(scale) if arm.spec)
    rows = {}
    for key, runs in store.trials(keys).items():
        if own := [run for run in runs if run.spec.hold_out is None]:
            rows[key] = ComparisonRow.of(own, selection)
    return Results(scale, selection, rows)
