"""A model's card: its data, its scores and how to load it; as plain data and as a page of Markdown."""

from collections.abc import Iterator, Mapping
from typing import Any

from invariance.core.provenance import provenance
from invariance.core.text import markdown_escape as escape
from invariance.estimators.base import VALIDATION_RULES, Invariant
from invariance.estimators.network import Standard
from invariance.methods import METHODS
from invariance.models.base import Architecture

MAX_LISTED = 30
"""Environments and classes that the page lists."""


def card(
    estimator: Invariant, licence: str, about: Mapping[str, Any], assessment: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Facts about a fitted estimator, what the caller adds ``about`` it, and an ``assessment`` at new sites.

    An assessment has a ``summary``, ``headings`` of columns and ``lines`` of text.
    """
    choice = estimator.choice_
    own = estimator.features is not None and not isinstance(estimator.features, Architecture)
    unit = _unit(estimator)
    return {
        "title": type(estimator).__name__,
        "licence": licence,
        "method": METHODS.name(estimator.method_),
        "fields": METHODS.dump(estimator.method_),
        "hidden": list(estimator.hidden_),
        "chosen": choice.reason if choice else "by the user",
        "note": estimator.note_,
        "selection": estimator.selection,
        "features": type(estimator.features).__name__ if own else None,
        "data": _data(estimator),
        "scored_on": f"validation {unit}" if estimator.selection in VALIDATION_RULES else f"training {unit}",
        "scores": estimator.scores_.by_environment,
        "assessment": assessment,
        "versions": provenance()["versions"],
        "about": dict(about),
    }


def _unit(estimator: Invariant) -> str:
    return "images" if len(estimator.input_shape_) > 1 else "rows"


def _data(estimator: Invariant) -> dict[str, Any]:
    classes = getattr(estimator, "classes_", None)
    standard = next(part for part in estimator.module_.modules() if isinstance(part, Standard))
    return {
        "fingerprint": estimator.fingerprint_,
        "rows": sum(estimator.counts_),
        "columns": int(estimator.n_features_in_),
        "input": list(estimator.input_shape_),
        "bytes": _unit(estimator) == "images" and not standard.get_buffer("mean").any(),
        "classes": None if classes is None else [str(name) for name in classes],
        "positive": None if classes is None or len(classes) > 2 else str(estimator.positive_),
        "environments": len(estimator.counts_),
    }


def readme(card: Mapping[str, Any]) -> str:
    """The card as Markdown."""
    return "\n".join([*_facts(card), "", *_scores(card), "", *_assessment(card), *_loading(card)]) + "\n"


def _facts(card: Mapping[str, Any]) -> Iterator[str]:
    data = card["data"]
    yield from (f"# {card['title']}", "")
    yield f"- Licence: {escape(card['licence'])}"
    yield f"- Method: {card['method']} (chosen: {escape(card['chosen'])})"
    fields = {name: value for name, value in card["fields"].items() if name != "name"}
    yield f"- Its fields: {', '.join(f'{name} = {_shown(value)}' for name, value in fields.items())}"
    yield f"- Hidden layers: {', '.join(map(str, card['hidden'])) or 'none'}"
    if card.get("note"):
        yield f"- Note: {escape(card['note'])}"
    yield f"- Checkpoint selection: {card['selection']}"
    size = " × ".join(map(str, data["input"][1:]))
    rows = f"{data['rows']} images of {size} pixels" if size else f"{data['rows']} rows, {data['columns']} columns"
    yield f"- Data: {rows}, {data['environments']} environments"
    if data["classes"] is not None:
        positive = f"; positive is {escape(data['positive'])}" if data["positive"] else ""
        yield f"- Classes: {', '.join(map(escape, data['classes'][:MAX_LISTED]))}{positive}"
    yield f"- Data fingerprint: {data['fingerprint']}"
    yield f"- Made with: {', '.join(f'{name} {number}' for name, number in card['versions'].items())}"
    yield from (f"- {escape(name)}: {escape(value)}" for name, value in card["about"].items())


def _shown(value: Any) -> str:
    """A field; of many numbers one after another, the first and the last."""
    if not isinstance(value, list) or not value or not all(isinstance(number, int) for number in value):
        return str(value)
    starts = [i for i, number in enumerate(value) if not i or number != value[i - 1] + 1]
    runs = [value[a:b] for a, b in zip(starts, [*starts[1:], len(value)], strict=True)]
    return f"[{', '.join(f'{run[0]} to {run[-1]}' if len(run) > 2 else ', '.join(map(str, run)) for run in runs)}]"


def _scores(card: Mapping[str, Any]) -> Iterator[str]:
    scores = card["scores"]
    numbers = card["data"]["classes"] is None
    what = "minus the mean squared error of standardised targets" if numbers else "accuracy"
    yield from ("## Scores", "", f"Score: {what}, on {card['scored_on']}.", "")
    yield from ("| environment | score |", "|---|--:|")
    yield from (f"| {escape(name)} | {scores[name]:.4f} |" for name in list(scores)[:MAX_LISTED])
    if len(scores) > MAX_LISTED:
        yield f"| … and {len(scores) - MAX_LISTED} more | |"


def _assessment(card: Mapping[str, Any]) -> Iterator[str]:
    if not (assessment := card.get("assessment")):
        return
    yield from ("## At new sites", "", escape(assessment["summary"]), "")
    heads, *lines = (list(map(escape, cells)) for cells in (assessment["headings"], *assessment["lines"]))
    for cells in (heads, ["---", *["--:"] * (len(heads) - 1)], *lines):
        yield f"| {' | '.join(cells)} |"
    yield ""


def _loading(card: Mapping[str, Any]) -> Iterator[str]:
    data, features = card["data"], card["features"]
    argument = f", features={features}(...)" if features else ""
    yield from ("## Load", "", "```python", "import invariance", "")
    yield f'model = invariance.load("this folder"{argument})'
    yield from (f"model.predict({'invariance.Pixels.of(X)' if data['bytes'] else 'X'})", "```")
    if features:
        yield from (
            "",
            f"The weights of {features} are saved, its layers are not: pass a module of the same architecture.",
        )
    if len(data["input"]) > 1:
        yield from ("", f"X holds {'bytes' if data['bytes'] else 'numbers'}, {data['input']} for each image.")
