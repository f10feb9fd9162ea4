"""Which checkpoint of a run counts: rules over its history, applied when reporting and never in training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from pydantic import Field, TypeAdapter

from invariance.core.errors import BadValue, UnknownName
from invariance.evaluation.diagnostics import Diagnostics
from invariance.evaluation.scores import Scores


@dataclass(frozen=True)
class Checkpoint:
    """What was measured after ``step`` updates.

    ``test`` is exact where a mechanism is known, ``sampled`` the same test drawn once, as papers report it. ``risk``
    and ``homogeneity`` are of the validation samples: the mean loss, and the p-value of a test whether loss and
    calibration are the same in all environments. Runs of earlier versions have neither. ``trained`` is false while
    another model is trained first, as in debiasing. Aliases are the names in stored histories.
    """

    step: int
    loss: float
    collapsed: bool
    train: Scores
    validation: Scores
    test: Scores
    sampled: Scores | None = None
    diagnostics: Annotated[Diagnostics | None, Field(alias="vitals")] = None
    risk: float | None = None
    homogeneity: Annotated[float | None, Field(alias="alike")] = None
    trained: bool = True


History = tuple[Checkpoint, ...]
_HISTORY: TypeAdapter[History] = TypeAdapter(History)
LEVEL = 0.001
"""Homogeneity is rejected at p-values below this; an invariant checkpoint is passed over as often as that."""


class Rule(NamedTuple):
    """How a checkpoint is chosen, from a run and from the runs that held one training environment out."""

    about: str
    pick: Callable[[History, Sequence[History]], int]
    sees_test: bool = False
    holds_out: bool = False


def _last(history: History, held_out: Sequence[History]) -> int:
    return len(history) - 1


def _invariant(history: History, held_out: Sequence[History]) -> int:
    for i in reversed(range(len(history))):
        if (p_value := history[i].homogeneity) is None:
            raise BadValue("a run of an earlier version did not compare environments; run it again or select by 'last'")
        if p_value >= LEVEL and not history[i].collapsed and history[i].trained:
            return i
    return len(history) - 1


def _training_domain(history: History, held_out: Sequence[History]) -> int:
    return _latest_best([c.validation.mean for c in history])


def _leave_one_out(history: History, held_out: Sequence[History]) -> int:
    if not held_out:
        raise BadValue("leave-one-environment-out needs the runs that held each training environment out")
    length = min(len(h) for h in (history, *held_out))
    if not length:
        raise BadValue("a run that held an environment out diverged before its first checkpoint; lower recipe.lr")
    return _latest_best([sum(h[i].validation.mean for h in held_out) for i in range(length)])


def _oracle(history: History, held_out: Sequence[History]) -> int:
    return _latest_best([c.test.mean for c in history])


def _latest_best(values: Sequence[float]) -> int:
    return max(range(len(values)), key=lambda i: (values[i], i))


RULES: dict[str, Rule] = {
    "last": Rule("the end of training", _last),
    "invariant": Rule(
        "the latest at which nothing in loss and calibration tells the training environments apart; else the end",
        _invariant,
    ),
    "training-domain": Rule("highest validation accuracy in the training environments", _training_domain),
    "leave-one-environment-out": Rule(
        "highest accuracy in environments left out of training, one run for each", _leave_one_out, holds_out=True
    ),
    "oracle": Rule("highest average accuracy in the test environments", _oracle, sees_test=True),
}


def rule(name: str) -> Rule:
    """The rule of this name."""
    if name not in RULES:
        raise UnknownName.of("selection rule", name, RULES)
    return RULES[name]


def label(name: str) -> str:
    """The rule's name as it is shown, with what it saw."""
    return f"{name} (has seen test data)" if rule(name).sees_test else name


def dump_history(history: History) -> list[dict[str, Any]]:
    """A history as plain data, by the names of stored histories."""
    plain: list[dict[str, Any]] = _HISTORY.dump_python(history, mode="json", by_alias=True)
    return [{name: value for name, value in c.items() if (name, value) != ("trained", True)} for c in plain]


def load_history(plain: Any) -> History:
    """The history that :func:`dump_history` made this of."""
    return _HISTORY.validate_python(plain)


def select(name: str, history: History, held_out: Sequence[History] = ()) -> Checkpoint:
    """The checkpoint that the rule takes."""
    return history[rule(name).pick(history, held_out)]
