"""Trials in an Optuna study, a SQLite file. A study is resumed by its name; what was begun is finished first."""

import random
import sqlite3
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import StorageInternalError
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from invariance.core.errors import BadValue, StoreError
from invariance.experiments.database import APPLICATION
from invariance.recipes.search import IntRange, LogRange, OneOf, Range, SearchRange
from invariance.tuning.rules import Verdict
from invariance.tuning.search import Search, Settings, rounded

STATES = {"finished": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
RESAMPLES, TREES = 20, 32
MIN_TRIALS = 8
"""Scored trials from which importances are computed."""
OPTUNA_TABLES = {"studies", "version_info", "alembic_version"}
"""Some of those that a file of Optuna's has; a process that was killed at the beginning may have made one alone."""


class Begun(NamedTuple):
    """A trial that has its settings and no verdict yet."""

    number: int
    settings: Settings


@dataclass(frozen=True)
class Trial:
    """A trial that was run. ``keys`` are those of its runs in the store, ``seconds`` what these took."""

    number: int
    status: Literal["finished", "pruned", "failed"]
    score: float | None
    reason: str
    settings: Settings
    seconds: float
    keys: tuple[str, ...]


@contextmanager
def opened(search: Search, path: Path) -> Iterator[optuna.Study]:
    """The study of a search: a new one, or the one that is in the file already."""
    _check(path)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        storage = optuna.storages.RDBStorage(f"sqlite:///{path.absolute()}", {"connect_args": {"timeout": 60}})
        try:
            study = optuna.create_study(
                storage=storage, study_name=search.name, direction="maximize", load_if_exists=True
            )
            for name, value in search.to_json().items():
                if name not in study.user_attrs:
                    study.set_user_attr(name, value)
            yield study
        finally:
            storage.remove_session()
            storage.engine.dispose()
    except (SQLAlchemyError, StorageInternalError) as error:  # Optuna hides a full disk behind a guess of its own
        reason = str(error.__cause__ or error).splitlines()[0]
        raise StoreError(f"{path}: {reason}; free some space, or choose another file with --study") from None


def _check(path: Path) -> None:
    """Refuse a file that is no database, one of runs, or one of another program, which stays as it is."""
    if not path.parent.is_dir():
        raise StoreError(f"cannot write {path}: there is no folder {path.parent}")
    if path.exists():
        try:
            with closing(sqlite3.connect(path)) as connection:
                (application,) = connection.execute("PRAGMA application_id").fetchone()
                tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}; choose another file with --study") from None
        if application == APPLICATION:
            raise BadValue(f"{path} is a store of runs; choose another file with --study")
        if tables and not tables & OPTUNA_TABLES:
            raise StoreError(f"{path} is a database of another program; choose another file with --study")


def distribution(each: SearchRange) -> BaseDistribution:
    """A range as Optuna has it."""
    match each:
        case LogRange(low, high):
            return FloatDistribution(low, high, log=True)
        case Range(low, high):
            return FloatDistribution(low, high)
        case IntRange(low, high):
            return IntDistribution(low, high)
        case OneOf(values):
            return CategoricalDistribution(values)
        case _:
            raise BadValue(f"{each} is no range that can be searched; use LogRange, Range, IntRange or OneOf")


def begin(study: optuna.Study, search: Search, budget: int, many: int) -> list[Begun]:
    """The next trials, at most ``many``: first those that were begun before; none where the budget is spent.

    A trial is drawn in memory, from a stream of its own, and written whole: a search that was killed anywhere goes on
    as if it had not been. The first trial is the method as it stands.
    """
    known = study.get_trials(deepcopy=False)
    running = [t for t in known if t.state == TrialState.RUNNING and t.params.keys() == search.space.keys()]
    free = min(many, budget - sum(_told(t) for t in known))
    begun = [_begun(t, search) for t in running][: max(0, free)]
    drawing = optuna.create_study(direction="maximize")
    drawing.add_trials(t for t in known if _told(t) or t in running)
    distributions = {name: distribution(each) for name, each in search.space.items()}
    while len(begun) < free:
        if not (before := len(drawing.get_trials(deepcopy=False))):
            drawing.enqueue_trial(dict(search.profile))
        drawing.sampler = optuna.samplers.TPESampler(seed=before, multivariate=True, constant_liar=True)
        begun.append(_begun(_written(study, drawing.ask(distributions)), search))
    return begun


def _written(study: optuna.Study, drawn: optuna.Trial) -> FrozenTrial:
    """A trial in the study's file, there with all its settings or not at all."""
    state, storage = TrialState.RUNNING, study._storage
    whole = optuna.trial.create_trial(state=state, params=drawn.params, distributions=drawn.distributions)
    return storage.get_trial(storage.create_new_trial(study._study_id, template_trial=whole))


def _begun(trial: Any, search: Search) -> Begun:
    return Begun(trial.number, {name: rounded(trial.params[name]) for name in search.space})


def _told(trial: FrozenTrial) -> bool:
    return trial.state.is_finished() and "record" in trial.user_attrs


def tell(study: optuna.Study, begun: Begun, verdict: Verdict, seconds: float, keys: Sequence[str]) -> None:
    """Write down what came of a trial; a trial that another process has written down stays as it is."""
    frozen = study.get_trials(deepcopy=False)[begun.number]
    if frozen.state.is_finished():
        return
    trial = optuna.Trial(study, frozen._trial_id)
    record = {"settings": dict(begun.settings), "reason": verdict.reason, "seconds": seconds, "keys": list(keys)}
    trial.set_user_attr("rule", study.user_attrs["rule"])
    trial.set_user_attr("record", record)
    study.tell(begun.number, verdict.score, state=STATES[verdict.status], skip_if_finished=True)


def trials(study: optuna.Study) -> tuple[Trial, ...]:
    """Every trial that has a verdict."""
    words: dict[TrialState, Any] = {state: status for status, state in STATES.items()}
    told = [(t, t.user_attrs["record"]) for t in study.get_trials(deepcopy=False) if _told(t)]
    return tuple(
        Trial(t.number, words[t.state], t.value, r["reason"], r["settings"], r["seconds"], tuple(r["keys"]))
        for t, r in told
    )


def importances(study: optuna.Study) -> dict[str, tuple[float, ...]]:
    """The share of the score's variance that each field explains, the most important first.

    By fANOVA (Hutter et al. 2014) over scored trials, drawn again with replacement several times: the spread says how
    much can be relied on. Empty where there are too few of them, or where all scores are the same.
    """
    scored = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len(scored) < MIN_TRIALS or len({t.value for t in scored}) < 2:
        return {}
    shares: dict[str, list[float]] = {}
    draw = random.Random(0)  # noqa: S311 - no secret
    evaluator = FanovaImportanceEvaluator(n_trees=TREES, seed=0)
    for _ in range(RESAMPLES):
        again = optuna.create_study(direction="maximize")
        again.add_trials(draw.choices(scored, k=len(scored)))
        with warnings.catch_warnings(), suppress(RuntimeError):  # this draw has one score only
            warnings.simplefilter("ignore")  # a field has one value in this draw
            for name, share in get_param_importances(again, evaluator=evaluator).items():
                shares.setdefault(name, []).append(float(share))
    ordered = sorted(shares, key=lambda name: -sum(shares[name]))
    return {name: tuple(shares[name]) for name in ordered}
