"""Controls for the claim that small batches help."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil, isclose
from typing import Any, ClassVar, final

from invariance.core.artefacts import Artefact, Column, Line, Quantity, Table
from invariance.experiments.spec import Spec
from invariance.studies.support.base import SCALES, Arm, Detail, Results, Study, arm
from invariance.studies.support.effects import difference, effects, signed
from invariance.studies.support.printed import printed
from invariance.studies.support.sweep import images

DATA = "Colored-MNIST"
FULL_FEW, SMALL_FEW = "full batch, few updates", "small batch, few updates"
FULL_MANY, SMALL_MANY = "full batch, many updates", "small batch, many updates"
PRINTED = {FULL_FEW: "large batch", SMALL_MANY: "small batch"}
"""The two that the paper has, as its Table 4 calls them."""
SPLIT = ", split"
METHODS: dict[Detail, tuple[str, ...]] = {
    "low": ("IRMv1", "IRMv1, split", "REx"),
    "medium": ("IRMv1", "IRMv1, split"),
    "high": ("IRMv1", "IRMv1, split", "IRMv0", "IRMv0, split", "REx"),
}
METRICS = ("average", "worst", "gap")


@final
class Controls(Study):
    """Is it the size of a batch, the number of updates, or the estimator of the penalty?"""

    title: ClassVar[str] = "Controls: batch size, number of updates, or estimator?"
    caption: ClassVar[str] = (
        "Over 19 test environments of Colored-MNIST, in %. The paper compares the first line of a method with its "
        "fourth, which differ in batch size and in the number of updates (and with it in learning rate and warm-up). "
        "The second is the large-batch recipe with small batches, the third the small-batch recipe with full "
        "batches: each differs from the first and from the fourth in one of the two. They are left out where both "
        "recipes make about as many updates. Squared gradients of a batch are biased upwards; the split estimator is "
        "not, and the bias of a full batch is fifty times smaller."
    )

    def arms(self, scale: str) -> list[Arm]:
        return [each for method in METHODS[SCALES[scale].detail] for each in _regimes(scale, method)]

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """One table; its notes are computed from its numbers."""
        lines, quantities = [], dict[str, dict[str, dict[str, Quantity]]]()
        for each in results.arms:
            cells = {metric: _quantity(results, each, metric) for metric in METRICS}
            quantities.setdefault(each.method, {})[each.setting] = cells
            lines.append(Line(f"{each.method}: {each.setting}", (each.x, *cells.values())))
        columns = (Column("updates"), *(Column(metric) for metric in METRICS))
        notes = (*_parts(quantities), *_estimators(quantities))
        return (Table(self.name, self.title, self.caption, "arm", columns, tuple(lines), results.provenance, notes),)


def updates(spec: Spec, rows: int) -> int:
    """How many updates there are in a run on so many training samples."""
    return spec.recipe.updates(rows)[1]


def _regimes(scale: str, label: str) -> Iterator[Arm]:
    """Both recipes as they are, and each with the batch size of the other and as many updates as before.

    The latter two say nothing where both recipes make about as many updates.
    """
    rows = images(scale)
    large, small = (_arm(scale, label, recipe, {}) for recipe in ("full-batch", "small-batch"))
    specs = {FULL_FEW: large, SMALL_MANY: small}
    if not isclose(updates(large, rows), updates(small, rows), rel_tol=0.1):
        size = small.recipe.batch_size
        few = {"batch_size": size, "epochs": max(1, round(updates(large, rows) / ceil(rows / min(rows, size or rows))))}
        specs[SMALL_FEW] = _arm(scale, label, "full-batch", few)
        if not label.endswith(SPLIT):  # as dear as all others: not for both estimators
            many = {"batch_size": None, "epochs": updates(small, rows)}
            specs[FULL_MANY] = _arm(scale, label, "small-batch", many)
    for setting in (each for each in (FULL_FEW, SMALL_FEW, FULL_MANY, SMALL_MANY) if each in specs):
        yield Arm(label, DATA, setting, specs[setting], x=updates(specs[setting], rows))


def _arm(scale: str, label: str, recipe: str, changes: Mapping[str, Any]) -> Spec:
    estimator = {"method": {"estimator": "split"}} if label.endswith(SPLIT) else {}
    made = arm(scale, label.removesuffix(SPLIT), DATA, "", recipe, {"recipe": changes, **estimator})
    assert made.spec  # noqa: S101 - the data set is in every version
    return made.spec


def _quantity(results: Results, arm: Arm, metric: str) -> Quantity:
    """Beside Table 4's, for the two arms that it has."""
    number = printed("table-4", DATA, PRINTED.get(arm.setting, ""), arm.method, metric)
    return replace(results.quantity(arm, metric, "controls"), printed=number)


Quantities = Mapping[str, Mapping[str, Mapping[str, Quantity]]]


def _parts(quantities: Quantities) -> Iterator[str]:
    """How much of the change from large to small batches is due to their size, and how much to updates."""
    for method, settings in quantities.items():
        for metric in ("average", "gap"):
            order = (FULL_FEW, SMALL_FEW, FULL_MANY, SMALL_MANY)
            cells = [settings[setting][metric] for setting in order if setting in settings]
            if len(cells) == len(order) and all(cell.ours for cell in cells):
                split = effects(*cells)
                verdict = {
                    1: "batch size has the larger part",
                    2: "updates have the larger part",
                    None: "these seeds do not tell which part is larger",
                }[split.larger]
                yield (
                    f"{method}, {metric}: {split.total} points from the first line to the fourth, "
                    f"{signed(split.first)} by batch size and {signed(split.second)} by updates; {verdict}"
                )


def _estimators(quantities: Quantities) -> Iterator[str]:
    """What the split estimator changes where the squared one was run too."""
    for method, settings in quantities.items():
        squared = quantities.get(method.removesuffix(SPLIT), {})
        for metric in ("average", "gap") if method.endswith(SPLIT) else ():
            both = [(s, settings[s][metric], squared[s][metric]) for s in settings if s in squared]
            changes = [f"{difference(new, old)} ({setting})" for setting, new, old in both if new.ours and old.ours]
            if changes:
                yield f"{method}, {metric}: {'; '.join(changes)} points against the squared estimator"
