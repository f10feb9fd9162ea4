"""Figure A3."""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import ClassVar, final

from invariance.core.artefacts import Artefact, Curve, Figure, Lines
from invariance.experiments.run import Run
from invariance.studies.support.base import SCALES, Arm, Detail, Results, Study, arm

CHECKPOINTS: dict[Detail, int] = {"low": 2, "medium": 50, "high": 50}
WITHOUT = "without the penalty"


@final
class FigureA3(Study):
    """Whether the shared head is stationary in every environment, and whether that takes the penalty."""

    title: ClassVar[str] = "Figure A3: stationarity of the head in every training environment"
    caption: ClassVar[str] = (
        "‖∇_w R^e‖² of BLOC-IRM in each training environment e over the updates; Colored-MNIST, large batches, one "
        "seed. Dashed: without the penalty, γ = 0 throughout. Right: divided by the squared mean norm of the "
        "features, since small features alone make it small. The paper's claim: with the penalty it goes to zero "
        "everywhere, without it it does not."
    )
    most_seeds: ClassVar[int | None] = 1

    def arms(self, scale: str) -> list[Arm]:
        often = {"evaluation": {"checkpoints": CHECKPOINTS[SCALES[scale].detail]}}
        off = {"objective": {"gamma": 0.0, "gamma_before": 0.0}}
        return [
            arm(scale, "BLOC-IRM", "Colored-MNIST", setting, "full-batch", {**often, **changes})
            for setting, changes in (("with the penalty", {}), (WITHOUT, off))
        ]

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """One figure of two panels, of the first seed."""
        arms = results.arms
        first = [(a.setting, row.runs[0]) for a in arms if (row := results.row(a))]
        panels = (
            Lines("as it is", "updates", "‖∇_w R^e‖²", tuple(_curves(first, normalised=False)), log_y=True),
            Lines("over ‖z‖²", "updates", "‖∇_w R^e‖² / ‖z‖²", tuple(_curves(first, normalised=True)), log_y=True),
        )
        return (Figure(self.name, self.title, self.caption, panels, results.provenance, results.notes(arms)),)


def _curves(runs: Sequence[tuple[str, Run]], *, normalised: bool) -> Iterator[Curve]:
    """One curve for each environment of each run; a logarithmic axis has no place for zeros."""
    for setting, run in runs:
        paths: dict[str, dict[int, float]] = {}
        for checkpoint in run.history:
            if diagnostics := checkpoint.diagnostics:
                scale = diagnostics.feature_norm**2 if normalised else 1.0
                for environment, value in diagnostics.stationarity.items():
                    if scale > 0 and value > 0 and isfinite(value / scale):
                        paths.setdefault(environment, {})[checkpoint.step] = value / scale
        for environment, path in paths.items():
            label = f"{environment}, {setting}"
            yield Curve(label, tuple(map(float, path)), tuple(path.values()), dashed=setting == WITHOUT)
