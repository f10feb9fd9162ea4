"""The runs of a store, each read once, found by what decided them: a report needs the store and no data."""

import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from invariance.data.base import DataSet
from invariance.experiments.run import Run
from invariance.experiments.selected_runs import SelectedRuns
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store


def identity(plain: Mapping[str, Any]) -> str:
    """Everything that the seeds of a trial share, as text. Unlike a key it does not depend on data that are here."""
    recipe = {name: value for name, value in plain["recipe"].items() if name != "name"}
    return json.dumps({**plain, "recipe": recipe, "seed": 0, "hold_out": None}, sort_keys=True)


class StoredRuns:
    """What a store holds, by trial; runs that several studies share are read once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.summaries = store.summaries()
        self.keys: dict[str, dict[int, str]] = {}
        for run in self.summaries:
            own = self.keys.setdefault(run.trial, {})
            if run.hold_out is None:
                own[run.seed] = run.key
        newest = {run.trial: run.key for run in self.summaries}
        self.specs = {trial: spec for trial, key in newest.items() for _, spec in store.specs(key=key)}
        self._trials: dict[str, list[str]] = {}
        for trial, spec in self.specs.items():
            self._trials.setdefault(identity(spec), []).append(trial)
        self._found: dict[str, str | None] = {}
        self._runs: dict[str, list[Run]] = {}
        self._selected: dict[tuple[str, str, tuple[int, ...]], SelectedRuns] = {}

    def trial(self, spec: Spec, known_as: str) -> str | None:
        """The key of the stored trial of a spec, whose identity is given, or None.

        Where data lie in a folder, their fingerprint may be another one here than where the runs were made, or there
        are none at all: then what decided the runs is enough, and of several trials the newest counts.
        """
        if known_as not in self._found:
            self._found[known_as] = self._find(spec, self._trials.get(known_as, []))
        return self._found[known_as]

    def _find(self, spec: Spec, candidates: list[str]) -> str | None:
        if not candidates or (len(candidates) == 1 and _in_a_folder(spec.data)):
            return candidates[0] if candidates else None
        if (key := spec.trial.key) in candidates:
            return key
        return candidates[-1] if _in_a_folder(spec.data) else None

    def select(
        self, trial: str, selection: str, *, with_collapsed: bool = False, seeds: Container[int] | None = None
    ) -> SelectedRuns | None:
        """The runs of a trial at the checkpoints that a rule takes, of these seeds or of all; None without a run."""
        runs = [run for run in self.runs(trial) if seeds is None or run.spec.seed in seeds]
        known = trial, selection, tuple(run.spec.seed for run in runs)
        if known not in self._selected:
            self._selected[known] = replace(SelectedRuns.of(runs, selection), trial=trial, keys=self.keys[trial])
        row = self._selected[known]
        return replace(row, with_collapsed=with_collapsed) if row.runs else None

    def runs(self, trial: str) -> list[Run]:
        """All runs of a trial."""
        if trial not in self._runs:
            self._runs |= self.store.trials([trial])
        return self._runs[trial]

    def held(self, identities: Iterable[str]) -> set[str]:
        """Those of these trials that the store has a run of."""
        return self._trials.keys() & set(identities)


@cache
def _in_a_folder(data: DataSet) -> bool:
    """Whether the fingerprint of data depends on files that users bring."""
    return not data.files and data.availability() is not None
