"""Figure 4."""

from typing import ClassVar, final

from invariance.core.artefacts import Mark
from invariance.studies.support.base import BASELINES, Arm
from invariance.studies.support.sweep import Sweep, width_arms

METHODS = (*BASELINES, "BLOC-IRM")


@final
class Figure4(Sweep):
    """All methods over the width of the network."""

    number: ClassVar[str] = "Figure 4"
    position: ClassVar[int] = 6
    title: ClassVar[str] = "accuracy over the width of the network"
    caption: ClassVar[str] = (
        "Average accuracy and accuracy gap over 19 test environments of Colored-MNIST, in %, with d units in each "
        "hidden layer; small batches. The literature uses d = 390. The paper's claim: nearly every method loses "
        "beyond that, BIRM, SparseIRM and BLOC-IRM least. Figure A4 adds deviations."
    )
    axis: ClassVar[str] = "width d"
    marks: ClassVar[tuple[Mark, ...]] = (Mark(390, "d = 390"),)
    band: ClassVar[bool] = False

    def arms(self, scale: str) -> list[Arm]:
        return width_arms(scale, METHODS)
