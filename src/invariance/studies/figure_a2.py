"""Figure A2."""

from statistics import fmean
from typing import ClassVar, final

from invariance.core.artefacts import Artefact, Figure, Surface
from invariance.evaluation.landscape import LossGrid, axis
from invariance.studies.support.base import Arm, Results, Study, arm
from invariance.studies.support.scales import SCALES, Detail

POINTS: dict[Detail, int] = {"low": 5, "medium": 21, "high": 51}
"""A side of the grid; odd, so that the trained weights are its middle."""


@final
class FigureA2(Study):
    """How flat the loss is around what large and what small batches find."""

    number: ClassVar[str] = "Figure A2"
    position: ClassVar[int] = 8
    title: ClassVar[str] = "the loss around the trained weights"
    caption: ClassVar[str] = (
        "Mean test loss of IRMv1 on Colored-MNIST on a plane through its trained weights (the middle), without "
        "penalty. Both directions are random, the same in both panels, and filter-normalised: at a distance of 1 "
        "each unit's weights have moved by their own length. One seed. The paper's claim: small batches end in a "
        "flatter place."
    )
    most_seeds: ClassVar[int | None] = 1

    def arms(self, scale: str) -> list[Arm]:
        changes = {"evaluation": {"landscape": POINTS[SCALES[scale].detail]}}
        return [
            arm(scale, "IRMv1", "Colored-MNIST", setting, recipe, changes)
            for setting, recipe in (("large batch", "full-batch"), ("small batch", "small-batch"))
        ]

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """One surface for each batch size, of the first seed that has one."""
        arms = results.arms
        grids = {a.setting: grid for a in arms if (grid := _first(results, a))}
        panels = tuple(_surface(setting, grid) for setting, grid in grids.items())
        notes = (*results.notes(arms), *(_flatness(setting, grid) for setting, grid in grids.items()))
        return (Figure(self.name, self.title, self.caption, panels, results.provenance, notes, self.number),)


def _first(results: Results, arm: Arm) -> LossGrid | None:
    row = results.row(arm)
    return next((run.landscape for run in row.runs if run.landscape), None) if row else None


def _surface(setting: str, grid: LossGrid) -> Surface:
    places = axis(len(grid))
    return Surface(setting, "first direction", "second direction", "test loss", places, places, grid)


def _flatness(setting: str, grid: LossGrid) -> str:
    """How far the loss rises above that of the trained weights, over the whole plane."""
    middle = grid[len(grid) // 2][len(grid) // 2]
    rise = fmean(value for row in grid for value in row) - middle
    change = f"{rise:+.3g}".replace("-", "−")
    return f"{setting}: test loss {middle:.3g} at the trained weights, {change} on average on the plane"
