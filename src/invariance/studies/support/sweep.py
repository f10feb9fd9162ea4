"""Figures of accuracy over one number that is changed: one curve per method, with its deviation as a band."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isnan
from statistics import fmean
from typing import ClassVar

from invariance.core.artefacts import Artefact, Curve, Figure, Flag, Lines, Mark, Quantity
from invariance.experiments.spec import Spec
from invariance.studies.support.base import METRICS, Arm, Results, Study, arm
from invariance.studies.support.printed import printed
from invariance.studies.support.scales import SCALES, Detail

FULL = 50_000
"""The full batch as the paper marks it on its axis: all training images of Colored-MNIST."""
BATCHES: dict[Detail, tuple[int, ...]] = {
    "low": (256, 1024),
    "medium": (256, 1024, 4096, 16_384),
    "high": (256, 512, 1024, 2048, 4096, 8192, 16_384),
}
"""Sizes of batches beside the full one."""
WIDTHS: dict[Detail, tuple[int, ...]] = {
    "low": (100, 390),
    "medium": (100, 390, 1200),
    "high": (100, 200, 390, 600, 800, 1000, 1200),
}
PRINTED = {"full batch": "large batch", "batch size 1024": "small batch", "width 390": "small batch"}
"""Points that Table 4 has too, as it calls their setting."""
PANELS = {"average": "average accuracy, %", "gap": "accuracy gap, %"}
UPDATES_DIFFER = (
    "Batch sizes differ in the number of updates as well (notes list them), so a low point may be due to either."
)
"""For captions of figures over batch size."""


class Sweep(Study):
    """A figure of two panels, average accuracy and accuracy gap."""

    axis: ClassVar[str]
    log_x: ClassVar[bool] = False
    band: ClassVar[bool] = True
    marks: ClassVar[tuple[Mark, ...]] = ()
    """Places that the paper marks."""

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """One figure; points without a finished run are left out, and a note counts them. Others list updates."""
        arms = results.arms
        panels = tuple(
            Lines(
                *(text.partition(",")[0], self.axis, text, tuple(self._curves(results, arms, metric)), self.log_x),
                marks=self.marks,
            )
            for metric, text in PANELS.items()
        )
        notes = (*results.notes(arms), *_updates_notes(arms))
        figure = Figure(self.name, self.title, self.caption, panels, results.provenance, notes, self.number)
        return (figure,)

    def _curves(self, results: Results, arms: Sequence[Arm], metric: str) -> Iterator[Curve]:
        for method in dict.fromkeys(a.method for a in arms):
            own = sorted((a for a in arms if a.method == method), key=lambda a: a.x)
            all_points = [(a, results.quantity(a, metric, self.name)) for a in own]
            points = [(a.x, q.mean, 0.0 if isnan(q.std) else q.std) for a, q in all_points if q.ours]
            flags = tuple(flag for a, q in all_points if (flag := _flag(results, a, q, metric)))
            if points or flags:
                x, y, spread = (tuple(values) for values in zip(*points, strict=True)) if points else ((), (), ())
                banded = self.band and any(spread)
                low, high = (
                    tuple(m + sign * s for m, s in zip(y, spread, strict=True)) if banded else () for sign in (-1, 1)
                )
                numbers = tuple(_printed(own, metric))
                yield Curve(method, x, y, low, high, method=method, printed=numbers, flags=flags)


def updates(spec: Spec) -> int:
    """The number of updates of a run; a method with a stopping rule may make fewer."""
    return spec.recipe.updates(spec.data.size().samples)[1]


def _updates_notes(arms: Sequence[Arm]) -> Iterator[str]:
    """The updates of every arm, methods of the same numbers together; nothing of those that always make as many."""
    counts: dict[str, dict[str, int]] = {}
    for each in sorted(arms, key=lambda a: a.x):
        if each.spec:
            counts.setdefault(each.method, {})[each.setting] = updates(each.spec)
    alike: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for method in dict.fromkeys(a.method for a in arms):
        alike.setdefault(tuple(counts.get(method, {}).items()), []).append(method)
    for own, methods in alike.items():
        if len({many for _, many in own}) > 1:
            listed = ", ".join(f"{many:,} ({setting})" for setting, many in own)
            yield f"Updates of {', '.join(methods)}: {listed}."


def _flag(results: Results, arm: Arm, quantity: Quantity, metric: str) -> Flag | None:
    """A mark at a point some of whose seeds collapsed: at their mean, or, where all did, at that of the collapsed."""
    row = results.row(arm)
    if not row or not row.collapsed:
        return None
    everything = replace(row, with_collapsed=True)
    y = quantity.mean if quantity.ours else fmean(everything.values(METRICS[metric]))
    return Flag(arm.x, y, row.status)


def _printed(arms: Sequence[Arm], metric: str) -> Iterator[tuple[float, float]]:
    """What Table 4 prints of the points of a curve: its batch sizes, at its width."""
    for each in arms:
        number = printed("table-4", each.data, PRINTED.get(each.setting, ""), each.method, metric)
        if number:
            yield each.x, number.mean


def _images(scale: str) -> int:
    """How many images Colored-MNIST trains on."""
    return int(SCALES[scale].changes.get("data", {}).get("images", FULL))


def batch_arms(scale: str, data: str, methods: Sequence[str]) -> list[Arm]:
    """Batches of every size for as many epochs as small ones, and the full batch by its own recipe."""
    return [
        *(_sized(scale, method, data, size) for size in BATCHES[SCALES[scale].detail] for method in methods),
        *(arm(scale, method, data, "full batch", "full-batch", x=_images(scale)) for method in methods),
    ]


def _sized(scale: str, method: str, data: str, size: int) -> Arm:
    """Batches of another size; where they grow at the switch, they grow by the same factor."""
    small = arm(scale, method, data, "", "small-batch").spec
    assert small  # noqa: S101 - these data sets are in every version
    factor = (small.recipe.penalty_batch_size or 0) / (small.recipe.batch_size or 1)
    changes = {"recipe": {"batch_size": size, "penalty_batch_size": round(factor * size) or None}}
    return arm(scale, method, data, f"batch size {size}", "small-batch", changes, x=size)


def width_arms(scale: str, methods: Sequence[str]) -> list[Arm]:
    """Small batches on networks of every width."""
    return [
        arm(scale, method, "Colored-MNIST", f"width {width}", "small-batch", {"model": {"width": width}}, x=width)
        for width in WIDTHS[SCALES[scale].detail]
        for method in methods
    ]
