"""Figure A3."""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import ClassVar, final

from invariance.core.artefacts import Artefact, Curve, Figure, Formula, Lines
from invariance.experiments.run import Run
from invariance.studies.support.base import Arm, Results, Study, arm
from invariance.studies.support.scales import SCALES, Detail

CHECKPOINTS: dict[Detail, int] = {"low": 2, "medium": 50, "high": 50}
MEASURES = {Formula("‖∇_w R^e‖²"): False, Formula("‖∇_w R^e‖² / ‖z‖²"): True}
"""What is drawn, and whether it is divided by the norm of the features."""


@final
class FigureA3(Study):
    """Whether the shared head is stationary in every environment, and whether that takes the penalty."""

    number: ClassVar[str] = "Figure A3"
    position: ClassVar[int] = 9
    title: ClassVar[str] = "stationarity of the head in every training environment"
    caption: ClassVar[str] = (
        "‖∇_w R^e‖² of BLOC-IRM in each training environment e over the updates; Colored-MNIST, large batches, one "
        "seed; with the penalty, and without it, γ = 0 throughout. The second pair is divided by the squared mean norm "
        "of the features, since small features alone make it small. The paper's claim: with the penalty it goes to "
        "zero everywhere, without it it does not."
    )
    most_seeds: ClassVar[int | None] = 1

    def arms(self, scale: str) -> list[Arm]:
        often = {"evaluation": {"checkpoints": CHECKPOINTS[SCALES[scale].detail]}}
        off = {"method": {"gamma": 0.0, "gamma_before": 0.0}}
        return [
            arm(scale, "BLOC-IRM", "Colored-MNIST", setting, "full-batch", {**often, **changes})
            for setting, changes in (("with the penalty", {}), ("without the penalty", off))
        ]

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """One figure of four panels, of the first seed."""
        arms = results.arms
        first = [(a.setting, row.runs[0]) for a in arms if (row := results.row(a))]
        panels = tuple(panel for measure in MEASURES for panel in _panels(first, measure))
        notes = results.notes(arms)
        return (Figure(self.name, self.title, self.caption, panels, results.provenance, notes, self.number),)


def _panels(runs: Sequence[tuple[str, Run]], measure: Formula) -> Iterator[Lines]:
    """With the penalty and without it, on axes that reach equally far."""
    curves = {setting: tuple(_curves(run, normalised=MEASURES[measure])) for setting, run in runs}
    values = [y for own in curves.values() for curve in own for y in curve.y]
    span = (min(values) / 1.5, max(values) * 1.5) if values else None
    for setting, own in curves.items():
        yield Lines(setting, "updates", measure, own, log_y=True, span=span)


def _curves(run: Run, *, normalised: bool) -> Iterator[Curve]:
    """One curve for each environment of a run; a logarithmic axis has no place for zeros."""
    paths: dict[str, dict[int, float]] = {}
    for checkpoint in run.history:
        if diagnostics := checkpoint.diagnostics:
            scale = diagnostics.feature_norm**2 if normalised else 1.0
            for environment, value in diagnostics.stationarity.items():
                if scale > 0 and value > 0 and isfinite(value / scale):
                    paths.setdefault(environment, {})[checkpoint.step] = value / scale
    for environment, path in paths.items():
        yield Curve(environment, tuple(map(float, path)), tuple(path.values()))
