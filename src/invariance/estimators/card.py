"""A model's card: what it was made of, how good it is, how to load it; as plain data and as a page of text."""

from collections.abc import Iterator, Mapping
from typing import Any

from invariance.core.provenance import provenance
from invariance.estimators.base import KEPT, Invariant
from invariance.estimators.network import Standard
from invariance.methods import METHODS
from invariance.models.base import Architecture

CARD = "README.md"
MOST = 30
"""How many environments the page lists."""


def card(estimator: Invariant, licence: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """What there is to say of a fitted estimator, and what its writer adds ``about`` it."""
    classes = getattr(estimator, "classes_", None)
    choice, counts = estimator.choice_, estimator.counts_
    unit = "images" if len(estimator.input_shape_) > 1 else "rows"
    standard = next(part for part in estimator.module_.modules() if isinstance(part, Standard))
    own = estimator.features is not None and not isinstance(estimator.features, Architecture)
    known: dict[str, Any] = {
        "title": type(estimator).__name__,
        "licence": licence,
        "method": METHODS.name(estimator.objective_),
        "chosen": choice.reason if choice else "by the user",
        "selection": estimator.selection,
        "features": type(estimator.features).__name__ if own else None,
        "data": {
            "fingerprint": estimator.fingerprint_,
            "rows": sum(counts),
            "columns": int(estimator.n_features_in_),
            "input": list(estimator.input_shape_),
            "bytes": unit == "images" and not standard.get_buffer("mean").any(),
            "classes": None if classes is None else [str(name) for name in classes],
            "environments": len(counts),
        },
        "scored_on": f"{unit} kept aside" if estimator.selection in KEPT else f"training {unit}",
        "scores": estimator.scores_.by_environment,
        "left_out": choice.scores if choice else {},
        "versions": provenance()["versions"],
    }
    return {**known, "about": dict(about)}


def readme(card: Mapping[str, Any]) -> str:
    """The card as Markdown."""
    return "\n".join(_lines(card)) + "\n"


def _lines(card: Mapping[str, Any]) -> Iterator[str]:
    data = card["data"]
    yield from (f"# {card['title']}", "")
    yield f"- Licence: {card['licence']}"
    yield f"- Method: {card['method']} (chosen: {card['chosen']})"
    yield f"- Selection: {card['selection']}"
    size = " × ".join(map(str, data["input"][1:]))
    rows = f"{data['rows']} images of {size} pixels" if size else f"{data['rows']} rows, {data['columns']} columns"
    yield f"- Data: {rows}, {data['environments']} environments"
    if data["classes"] is not None:
        yield f"- Classes: {', '.join(data['classes'][:MOST])}"
    yield f"- Data fingerprint: {data['fingerprint']}"
    yield f"- Made with: {', '.join(f'{name} {number}' for name, number in card['versions'].items())}"
    yield from (f"- {name}: {value}" for name, value in card["about"].items())
    what = "accuracy" if data["classes"] is not None else "minus the mean squared error, of standardised targets"
    yield from ("", "## Scores", "", f"Score: {what}, on {card['scored_on']}.")
    yield from ("Left out: the same of a model that was trained without the environment.", "")
    yield from _scores(card)
    features = f", features={card['features']}(...)" if card["features"] else ""
    yield from ("", "## Load", "", "```python", "import invariance", "")
    yield from (f'model = invariance.load("this folder"{features})',)
    yield from (f"model.predict({'invariance.Pixels.of(X)' if data['bytes'] else 'X'})", "```")
    if features:
        yield from ("", f"The layers of {card['features']} are not saved, their weights are: make it as it was.")
    if size:
        yield from ("", f"X are {'bytes' if data['bytes'] else 'numbers'}, {data['input']} for each image.")


def _scores(card: Mapping[str, Any]) -> Iterator[str]:
    scores, left_out = card["scores"], card["left_out"]
    yield from ("| environment | score | left out |", "|---|--:|--:|")
    for name in list(scores)[:MOST]:
        new = f"{left_out[name]:.4f}" if name in left_out else ""
        yield f"| {name} | {scores[name]:.4f} | {new} |"
    if len(scores) > MOST:
        yield f"| … and {len(scores) - MOST} more | | |"
