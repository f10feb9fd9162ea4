"""Which trials are drawn together: the methods of one setting, on one data set."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from invariance.core.errors import InvarianceError
from invariance.core.fields import flattened
from invariance.experiments.selected_runs import SelectedRuns
from invariance.experiments.store import Group
from invariance.experiments.stored_runs import StoredRuns
from invariance.studies.support.base import Results
from invariance.studies.support.recipes_text import recipes_text

MOST_SETTINGS, MOST_TRIALS = 12, 12
"""Of the runs that belong to no study that is shown."""
MOST_FIELDS = 4
"""By which a trial is told from others of its method."""


@dataclass(frozen=True)
class Setting:
    """Trials by the name they are drawn under. ``how`` says how they were trained."""

    data: str
    how: str
    rows: Mapping[str, SelectedRuns]

    @property
    def methods(self) -> dict[str, str]:
        """The method of every row."""
        return {name: row.spec.method.title for name, row in self.rows.items()}

    def selected_by(self, stored: StoredRuns, selection: str) -> "Setting":
        """The same trials at the checkpoints that another rule takes."""
        rows = {name: stored.select(row.trial, selection) for name, row in self.rows.items()}
        return replace(self, rows={name: row for name, row in rows.items() if row})

    def with_collapsed(self, included: bool) -> "Setting":
        """The same checkpoints, those that have collapsed averaged too, or not."""
        rows = {name: replace(row, with_collapsed=included) for name, row in self.rows.items()}
        return replace(self, rows=rows)


def of_studies(studies: Iterable[Results]) -> list[Setting]:
    """The settings of these studies, those with most methods first, then those of most studies.

    What several studies share, under whatever name, comes once. A setting is called by the recipe that its runs had.
    """
    by_name: dict[tuple[str, str], dict[str, SelectedRuns]] = {}
    used: Counter[tuple[str, str]] = Counter()
    for results in studies:
        named = [((arm.data, _how(arm.setting, row)), arm, row) for arm in results.arms if (row := results.row(arm))]
        used.update({setting for setting, _, _ in named})
        for setting, arm, row in named:
            by_name.setdefault(setting, {}).setdefault(arm.method, row)
    by_trials: dict[frozenset[str], Setting] = {}
    for (data, how), rows in sorted(by_name.items(), key=lambda item: (-len(item[1]), -used[item[0]])):
        trials = frozenset(row.trial for row in rows.values())
        if not any(trials <= others for others in by_trials):
            by_trials[trials] = Setting(data, how, rows)
    return list(by_trials.values())


def _how(setting: str, row: SelectedRuns) -> str:
    (recipe,) = recipes_text([row.spec])
    return f"{setting} · {recipe.removeprefix('recipe ')}"


def of_other_runs(
    stored: StoredRuns, groups: Sequence[Group], known: set[str], selection: str
) -> tuple[list[Setting], str]:
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
        rows = list(_readable(stored, keys, selection))
        left_out -= len(rows)
        if rows:
            titles = {row.trial: row.spec.method.title for row in rows}
            names = told_apart({row.trial: stored.specs[row.trial] for row in rows}, titles)
            own = {names[row.trial]: row for row in rows}
            settings.append(Setting(rows[0].spec.data.title, recipe, own))
    return settings, f"Not drawn: {left_out:,} more trials; the table of all runs has them." if left_out else ""


def _readable(stored: StoredRuns, keys: Iterable[str], selection: str) -> Iterator[SelectedRuns]:
    """Trials with a run; one of a method or data set that is not installed any more is left out."""
    for key in keys:
        try:
            row = stored.select(key, selection)
        except InvarianceError:
            continue
        if row:
            yield row


def told_apart(specs: Mapping[str, Mapping[str, Any]], titles: Mapping[str, str]) -> dict[str, str]:
    """A name for each trial: its title, and the fields in which it is not like most of that title."""
    names: dict[str, str] = {}
    for title in dict.fromkeys(titles.values()):
        own = {trial: dict(flattened(specs[trial])) for trial in specs if titles[trial] == title}
        counts: dict[str, Counter[str]] = {}
        for fields in own.values():
            for field, value in fields.items():
                counts.setdefault(field, Counter())[repr(value)] += 1
        for trial, fields in own.items():
            unlike = [k for k, v in fields.items() if k != "seed" and counts[k][repr(v)] * 2 <= len(own) > 1]
            parts = [f"{k.rpartition('.')[2]} = {fields[k]}" for k in unlike[:MOST_FIELDS]]
            name = ", ".join([title, *parts])
            names[trial] = name if name not in names.values() else f"{name} ({trial[:6]})"
    return names
