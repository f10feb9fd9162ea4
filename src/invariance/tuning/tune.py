"""Search for a method's hyper-parameters: ask Optuna for trials, run what is missing, tell it what came of them."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from invariance.core.errors import BadValue
from invariance.experiments.engines.base import Driver, Engine
from invariance.experiments.engines.local import Local
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store
from invariance.recipes.search import SearchSpace
from invariance.tuning.rules import Verdict, judge
from invariance.tuning.search import Search

if TYPE_CHECKING:
    from invariance.tuning.trials import Begun, Trial

RUNS_PER_WORKER = 2
"""With each seed of a round of trials: with one, workers would wait for the longest of these runs."""

Runner = Callable[[list[Spec], Driver], None]
"""Has the driver run what is missing in the store."""
Watch = Callable[["Tuning"], None]
"""Called after every round of trials."""


def make_runs(specs: list[Spec], driver: Driver) -> None:
    """Without showing how it goes."""
    for _ in driver.run(specs):
        pass


@dataclass(frozen=True)
class Tuning:
    """The trials of a search, and what mattered in them."""

    search: Search
    study: Path
    budget: int
    trials: "tuple[Trial, ...]"
    importances: Mapping[str, tuple[float, ...]]
    """The share of the score's variance that each field explains, over resampled trials."""

    @property
    def ranked(self) -> "list[Trial]":
        """Scored trials, the best first."""
        return sorted((t for t in self.trials if t.score is not None), key=lambda t: (-(t.score or 0.0), t.number))

    @property
    def best(self) -> "Trial | None":
        """The trial with the highest score, or None where no trial has one."""
        return next(iter(self.ranked), None)

    @property
    def options(self) -> str:
        """The best trial as options of a command, for this data set or another."""
        return self.search.options(self.best.settings) if self.best else ""

    def to_json(self) -> dict[str, Any]:
        """One object for machines."""
        best = self.best
        return {
            **self.search.to_json(),
            "study": str(self.study),
            "name": self.search.name,
            "budget": self.budget,
            "trials": {
                status: sum(t.status == status for t in self.trials) for status in ("finished", "pruned", "failed")
            },
            "seconds": round(sum(t.seconds for t in self.trials), 3),
            "best": best and {**vars(best), "settings": dict(best.settings), "keys": list(best.keys)},
            "options": self.options,
            "importances": {name: sum(shares) / len(shares) for name, shares in self.importances.items()},
        }


def tune(
    data: str,
    method: str,
    recipe: str = "default",
    *,
    trials: int = 50,
    rule: str = "invariant",
    seeds: int = 1,
    first_seed: int = 100,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    ranges: SearchSpace | None = None,
    study: Path = Path("tune.db"),
    store: Path = Path("runs.db"),
    engine: Engine | None = None,
    run: Runner = make_runs,
    watch: Watch = lambda tuning: None,
) -> Tuning:
    """Look for the fields of a method and its recipe with the best score, until there are so many ``trials``.

    Fields in ``changes`` are fixed, ``ranges`` add to the method's own search space. The trials are kept in ``study``
    and their runs in ``store``: the same call goes on where it was stopped, and no run is repeated.
    """
    try:
        from invariance.tuning.trials import begin, importances, opened, tell
        from invariance.tuning.trials import trials as told
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("invariance"):
            raise
        raise BadValue("tuning needs Optuna: pip install 'invariance[tune]'") from None
    search = Search(data, method, recipe, rule, seeds, first_seed, changes or {}, ranges or {})
    engine = engine or Local()
    many = math.ceil(RUNS_PER_WORKER * engine.capacity() / len(search.runs(search.profile, first_seed)))
    with opened(search, study) as kept, closing(engine.driver(store)) as driver:
        while begun := begin(kept, search, trials, many):
            outcomes = _seed_after_seed(search, begun, lambda specs: run(specs, driver), store)
            for trial in begun:
                tell(kept, trial, *outcomes[trial.number])
            watch(Tuning(search, study, trials, told(kept), {}))
        kept.set_user_attr("budget", trials)
        return Tuning(search, study, trials, told(kept), importances(kept))


class _Outcome(NamedTuple):
    """The verdict on a trial, the seconds of its runs and their keys."""

    verdict: Verdict
    seconds: float
    keys: list[str]


def _seed_after_seed(
    search: Search, begun: "Sequence[Begun]", run: Callable[[list[Spec]], None], store: Path
) -> dict[int, _Outcome]:
    """What came of some trials, by their numbers.

    All are run with the first seed, those that have a score by then with the second, and so on. One seed that collapsed
    is enough for no score, so a trial pays for no seed after it.
    """
    specs: dict[int, list[Spec]] = {trial.number: [] for trial in begun}
    outcomes: dict[int, _Outcome] = {}
    for seed in search.seed_numbers:
        next_runs = {trial.number: search.runs(trial.settings, seed) for trial in begun}
        run([spec for runs in next_runs.values() for spec in runs])
        with Store(store) as stored:
            for number, runs in next_runs.items():
                specs[number] += runs
                outcomes[number] = _outcome(search.rule, specs[number], stored)
        begun = [trial for trial in begun if outcomes[trial.number].verdict.status == "finished"]
        if not begun:
            break
    return outcomes


def _outcome(rule: str, specs: Sequence[Spec], store: Store) -> _Outcome:
    keys = [spec.key for spec in specs]
    runs = [run for key in keys if (run := store.get(key))]
    if len(runs) < len(keys):
        return _Outcome(Verdict("failed", reason=f"{len(keys) - len(runs)} of its runs are missing"), 0.0, keys)
    return _Outcome(judge(rule, runs), sum(run.seconds for run in runs), keys)
