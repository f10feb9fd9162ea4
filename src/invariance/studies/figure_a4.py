"""Figure A4."""

from typing import ClassVar, final

from invariance.core.artefacts import Mark
from invariance.studies.figure_4 import METHODS
from invariance.studies.support.base import Arm
from invariance.studies.support.sweep import Sweep, width_arms


@final
class FigureA4(Sweep):
    """Figure 4 with its deviations."""

    number: ClassVar[str] = "Figure A4"
    position: ClassVar[int] = 10
    title: ClassVar[str] = "accuracy over the width of the network, with deviations"
    caption: ClassVar[str] = (
        "The runs of Figure 4 with a band of one standard deviation over seeds: average accuracy and accuracy gap "
        "over 19 test environments of Colored-MNIST, in %. The paper's claim is that of Figure 4."
    )
    axis: ClassVar[str] = "width d"
    marks: ClassVar[tuple[Mark, ...]] = (Mark(390, "d = 390"),)

    def arms(self, scale: str) -> list[Arm]:
        return width_arms(scale, METHODS)
