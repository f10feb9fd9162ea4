"""Controls for the claim that small batches help."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil, isclose
from typing import Any, ClassVar, final

from invariance.core.artefacts import Artefact, Column, Line, Quantity, Table
from invariance.experiments.spec import Spec
from invariance.studies.support.base import Arm, Results, Study, arm
from invariance.studies.support.effects import difference, effects, signed
from invariance.studies.support.printed import printed
from invariance.studies.support.scales import SCALES, Detail
from invariance.studies.support.sweep import updates

DATA = "Colored-MNIST"
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
        "last, which differ in batch size and in the number of updates (and with it in learning rate and warm-up). "
        "Between them stand the large-batch recipe with small batches and the small-batch recipe with full batches: "
        "each differs from the first and from the last in one of the two. They are left out where both "
        "recipes make about as many updates. Squared gradients of a batch are biased upwards; the split estimator is "
        "not, and the bias of a full batch is fifty times smaller."
    )

    def arms(self, scale: str) -> list[Arm]:
        return [each for method in METHODS[SCALES[scale].detail] for each in _regimes(scale, method)]

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """One table; its notes are computed from its numbers."""
        lines, quantities = [], dict[str, dict[str, dict[str, Quantity]]]()
        for method in dict.fromkeys(each.method for each in results.arms):
            own = [each for each in results.arms if each.method == method]
            for each in own:
                printed_as = "large batch" if each is own[0] else "small batch" if each is own[-1] else ""
                cells = {metric: _quantity(results, each, metric, printed_as) for metric in METRICS}
                quantities.setdefault(method, {})[each.setting] = cells
                lines.append(Line(f"{method}: {each.setting}", tuple(cells.values())))
        columns = tuple(map(Column, METRICS))
        notes = (*_parts(quantities), *_estimators(quantities))
        return (Table(self.name, self.title, self.caption, "arm", columns, tuple(lines), results.provenance, notes),)


def _regimes(scale: str, label: str) -> Iterator[Arm]:
    """Both recipes as they are, and between them each with the batch size of the other and as many updates as before.

    The latter two say nothing where both recipes make about as many updates.
    """
    large, small = (_arm(scale, label, recipe, {}) for recipe in ("full-batch", "small-batch"))
    specs = [large, small]
    if not isclose(updates(large), updates(small), rel_tol=0.1):
        rows, own = large.data.size().samples, small.recipe.batch_size
        few = {"batch_size": own, "epochs": max(1, round(updates(large) / ceil(rows / min(rows, own or rows))))}
        many = {"batch_size": None, "epochs": updates(small)}
        specs.insert(1, _arm(scale, label, "full-batch", few))
        if not label.endswith(SPLIT):  # as dear as all others: not for both estimators
            specs.insert(2, _arm(scale, label, "small-batch", many))
    for spec in specs:
        size = "small" if spec.recipe.batch_size else "full"
        yield Arm(label, DATA, f"{size} batch, {updates(spec):,} updates", spec)


def _arm(scale: str, label: str, recipe: str, changes: Mapping[str, Any]) -> Spec:
    estimator = {"method": {"estimator": "split"}} if label.endswith(SPLIT) else {}
    made = arm(scale, label.removesuffix(SPLIT), DATA, "", recipe, {"recipe": changes, **estimator})
    assert made.spec  # noqa: S101 - the data set is in every version
    return made.spec


def _quantity(results: Results, arm: Arm, metric: str, printed_as: str) -> Quantity:
    """Beside what Table 4 prints of the two recipes that the paper has."""
    number = printed("table-4", DATA, printed_as, arm.method, metric)
    return replace(results.quantity(arm, metric, "controls"), printed=number)


Quantities = Mapping[str, Mapping[str, Mapping[str, Quantity]]]


def _parts(quantities: Quantities) -> Iterator[str]:
    """How much of the change from large to small batches is due to their size, and how much to updates."""
    for method, settings in quantities.items():
        for metric in ("average", "gap"):
            cells = [own[metric] for own in settings.values()]
            if len(cells) == 4 and all(cell.ours for cell in cells):
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
