"""Which trials are drawn together: the methods of one setting, on one data set."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from invariance.core.errors import InvarianceError
from invariance.core.fields import flattened
from invariance.experiments.selected_runs import SelectedRuns
from invariance.experiments.store import Group, Store
from invariance.studies.support.base import Results

MOST_SETTINGS, MOST_TRIALS = 12, 12
"""Of the runs that belong to no study that is shown."""


@dataclass(frozen=True)
class Setting:
    """Trials by the name they are drawn under. ``how`` says how they were trained."""

    data: str
    how: str
    rows: Mapping[str, SelectedRuns]


def of_studies(studies: Iterable[Results]) -> list[Setting]:
    """The settings of these studies, those with most methods first, then those of most studies.

    What several studies share, under whatever name, comes once.
    """
    by_name: dict[tuple[str, str], dict[str, SelectedRuns]] = {}
    used: Counter[tuple[str, str]] = Counter()
    for results in studies:
        named = [((arm.data, f"{arm.setting}, {results.scale}"), arm) for arm in results.arms]
        used.update({setting for setting, _ in named})
        for setting, arm in named:
            if row := results.row(arm):
                by_name.setdefault(setting, {}).setdefault(arm.method, row)
    by_trials: dict[frozenset[str], Setting] = {}
    for (data, how), rows in sorted(by_name.items(), key=lambda item: (-len(item[1]), -used[item[0]])):
        trials = frozenset(row.spec.trial.key for row in rows.values())
        if not any(trials <= others for others in by_trials):
            by_trials[trials] = Setting(data, how, rows)
    return list(by_trials.values())


def of_other_runs(store: Store, groups: Sequence[Group], known: set[str], selection: str) -> tuple[list[Setting], str]:
    """Settings of the trials that are not known yet, by data set and recipe; and in a sentence what was left out."""
    kinds = [
        (data, recipe, list(trials))
        for (data, recipe), trials in groupby(groups, key=lambda group: (group.data, group.recipe))
    ]
    kinds = [(data, recipe, [t for t in trials if t.trial not in known]) for data, recipe, trials in kinds]
    kinds = sorted((kind for kind in kinds if kind[2]), key=lambda kind: -sum(t.runs for t in kind[2]))
    settings, left_out = [], sum(len(trials) for _, _, trials in kinds)
    for _, recipe, trials in kinds[:MOST_SETTINGS]:
        keys = [t.trial for t in sorted(trials, key=lambda t: -t.runs)[:MOST_TRIALS]]
        rows = list(_readable(store, keys, selection))
        left_out -= len(rows)
        if rows:
            settings.append(Setting(rows[0].spec.data.title, recipe, dict(zip(_names(rows), rows, strict=True))))
    return settings, f"Not drawn: {left_out:,} more trials; the table of all runs has them." if left_out else ""


def _readable(store: Store, keys: Iterable[str], selection: str) -> Iterator[SelectedRuns]:
    """Trials with a run; one of a method or data set that is not installed any more is left out."""
    for key in keys:
        try:
            (runs,) = store.trials([key]).values()
            row = SelectedRuns.of(runs, selection)
        except InvarianceError:
            continue
        if row.runs:
            yield row


def _names(rows: Sequence[SelectedRuns]) -> list[str]:
    """The method of each row, with the fields in which rows of one method differ."""
    plain = [dict(flattened(row.spec.trial.to_json())) for row in rows]
    titles = [row.spec.objective.title for row in rows]
    names: list[str] = []
    for fields, title in zip(plain, titles, strict=True):
        same_method = [other for other, its in zip(plain, titles, strict=True) if its == title]
        differing = [k for k in fields if any(other.get(k) != fields[k] for other in same_method)]
        name = ", ".join([title, *(f"{k.rpartition('.')[2]} = {fields[k]}" for k in differing[:3])])
        names.append(name if name not in names else f"{name} ({len(names)})")
    return names
