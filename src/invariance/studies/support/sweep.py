"""Figures of accuracy over one number that is changed: one curve per method, with its deviation as a band."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from invariance.core.artefacts import Artefact, Curve, Figure, Lines
from invariance.studies.support.base import SCALES, Arm, Detail, Results, Study, arm

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
PANELS = {"average": "average accuracy, %", "gap": "accuracy gap, %"}


class Sweep(Study):
    """A figure of two panels, average accuracy and accuracy gap."""

    axis: ClassVar[str]
    log_x: ClassVar[bool] = False
    band: ClassVar[bool] = True

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """One figure; points without a finished run are left out, and a note counts them."""
        arms = results.arms
        panels = tuple(
            Lines(label.partition(",")[0], self.axis, label, tuple(self._curves(results, arms, metric)), self.log_x)
            for metric, label in PANELS.items()
        )
        figure = Figure(self.name, self.title, self.caption, panels, results.provenance, results.notes(arms))
        return (figure,)

    def _curves(self, results: Results, arms: Sequence[Arm], metric: str) -> Iterator[Curve]:
        for method in dict.fromkeys(a.method for a in arms):
            own = [(a.x, results.quantity(a, metric, self.name)) for a in arms if a.method == method]
            points = sorted((x, q.mean, q.std) for x, q in own if q.ours)
            if points:
                x, y, spread = (tuple(values) for values in zip(*points, strict=True))
                edges = [tuple(m + sign * s for m, s in zip(y, spread, strict=True)) for sign in (-1, 1)]
                yield Curve(method, x, y, *(edges if self.band else ()))


def images(scale: str) -> int:
    """How many images Colored-MNIST trains on."""
    return int(SCALES[scale].changes.get("data", {}).get("images", FULL))


def batch_arms(scale: str, data: str, methods: Sequence[str]) -> list[Arm]:
    """Batches of every size for as many epochs as small ones, and the full batch by its own recipe."""
    return [
        *(
            arm(scale, method, data, f"batch size {size}", "small-batch", {"recipe": {"batch_size": size}}, x=size)
            for size in BATCHES[SCALES[scale].detail]
            for method in methods
        ),
        *(arm(scale, method, data, "full batch", "full-batch", x=images(scale)) for method in methods),
    ]


def width_arms(scale: str, methods: Sequence[str]) -> list[Arm]:
    """Small batches on networks of every width."""
    return [
        arm(scale, method, "Colored-MNIST", f"width {width}", "small-batch", {"model": {"width": width}}, x=width)
        for width in WIDTHS[SCALES[scale].detail]
        for method in methods
    ]
