"""Options of a command line as parameters of an estimator."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import TypeAdapter
from sklearn.utils.class_weight import compute_sample_weight

from invariance.core.errors import BadValue, UnknownName
from invariance.estimators import defaults
from invariance.estimators.classifier import InvariantClassifier
from invariance.fitting.labels import LabelMatcher
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


def changed_method(name: str, changes: Mapping[str, Any], task: FitTask) -> Method:
    """The method with a table's defaults, and some fields changed; columns of the table may be left out by name."""
    fields = dict(changes)
    if isinstance(without := fields.get("without"), list):
        fields["without"] = inputs_of(without, task)
    return METHODS.load(METHODS.dump(defaults.named(name)) | fields)


def inputs_of(columns: Sequence[Any], task: FitTask) -> list[Any]:
    """The inputs of these columns, or parts of columns, in their order; what is no name stays as it is."""
    places = {name: range(place.start, place.stop) for name, place in (*task.rows.parts, *task.reader.columns)}
    if unknown := [name for name in columns if isinstance(name, str) and name not in places]:
        raise UnknownName.of("column that is used", unknown[0], places)
    found = [i for column in columns for i in (places[column] if isinstance(column, str) else (column,))]
    return sorted(set(found)) if all(isinstance(i, int) for i in found) else found


def columns_of(inputs: Sequence[int], task: FitTask) -> list[str | int]:
    """The same inputs as few names: of whole columns, then of parts of columns; a number for what has no name."""
    rest, named = set(inputs), list[str | int]()
    for name, place in (*task.reader.columns, *task.rows.parts):
        own = range(place.start, place.stop)
        if rest.issuperset(own):
            named.append(name)
            rest.difference_update(own)
    return named + sorted(rest)


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


def positive_class(task: FitTask, label: str | None) -> str | None:
    """The class that a label of the command line names, as the table spells it."""
    if label is None:
        return None
    classes = _classes(task)
    if len(classes) != 2:
        kind = f"{len(classes)} classes" if classes else "numbers"
        raise BadValue(f"--positive is for two classes, and {task.label} has {kind}; leave it out")
    code = LabelMatcher(classes).code(label)
    if code is None:
        raise UnknownName.of(f"class of {task.label}", label, classes)
    return classes[code]


def _classes(task: FitTask) -> list[str]:
    """Of the label; none if it holds numbers."""
    if not isinstance(task.estimator, InvariantClassifier):
        return []
    found: list[str] = (np.unique(task.rows.y) if task.rows.classes is None else task.rows.classes).tolist()
    return found


def decision_threshold(task: FitTask, threshold: float | None, cost: float | None) -> float:
    """The probability from which a row is positive: as given, or where both errors cost the same; else a half."""
    if threshold is None and cost is None:
        return 0.5
    if threshold is not None and cost is not None:
        raise BadValue("--threshold and --cost say the same; give one of them")
    if len(_classes(task)) != 2:
        raise BadValue(f"--threshold and --cost are for two classes, and {task.label} has another kind; leave them out")
    return threshold if threshold is not None else 1 / (1 + (cost or 0.0))
