"""Options of a command line as parameters of an estimator."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter
from sklearn.utils.class_weight import compute_sample_weight

from invariance.core.errors import BadValue
from invariance.estimators import defaults
from invariance.estimators.classifier import InvariantClassifier
from invariance.fitting.reader import FitTask
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.recipes.presets import recipe
from invariance.recipes.recipe import Recipe


def widths(hidden: str | None) -> tuple[int, ...] | None:
    """``32,32`` as widths of hidden layers, ``none`` for a linear model; None where nothing is given."""
    if hidden is None:
        return None
    parts = [part.strip() for part in hidden.split(",") if part.strip() not in ("", "none")]
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise BadValue(f"--hidden is {hidden!r}; expected widths of layers joined by commas, for example 32,32")
    return tuple(map(int, parts))


def changed_method(name: str, changes: Mapping[str, Any]) -> Method:
    """The method with a table's defaults, and some fields changed."""
    return METHODS.load(METHODS.dump(defaults.named(name)) | dict(changes))


def changed_recipe(given: str | Recipe | Mapping[str, Any], changes: Mapping[str, Any]) -> Any:
    """A recipe with some fields changed; those of ``"auto"`` are changed when the rows are known."""
    if not changes:
        return given
    if not isinstance(given, Recipe):
        return {**(given if isinstance(given, Mapping) else {}), **changes}
    return recipe("full-batch", changes=TypeAdapter(Recipe).dump_python(given, mode="json") | dict(changes))


def weighted(task: FitTask, class_weight: str | None) -> FitTask:
    """The task with class weights as sample weights, so that every class weighs the same."""
    if class_weight is None:
        return task
    if not isinstance(task.estimator, InvariantClassifier):
        raise BadValue(f"--class-weight is for classes, and {task.label} holds numbers; leave it out")
    weight = compute_sample_weight(class_weight, task.rows.y)
    note = "classes are weighted, so probabilities are those of a population where all classes are equally frequent"
    return replace(task, rows=replace(task.rows, weight=weight), notes=(*task.notes, note))


def decision_threshold(task: FitTask, threshold: float | None, cost: float | None) -> float:
    """The probability from which a row is positive: as given, or where both errors cost the same; else a half."""
    if threshold is None and cost is None:
        return 0.5
    if threshold is not None and cost is not None:
        raise BadValue("--threshold and --cost say the same; give one of them")
    if len(set(task.rows.y.tolist())) != 2 or not isinstance(task.estimator, InvariantClassifier):
        raise BadValue(f"--threshold and --cost are for two classes, and {task.label} has another kind; leave them out")
    return threshold if threshold is not None else 1 / (1 + (cost or 0.0))
