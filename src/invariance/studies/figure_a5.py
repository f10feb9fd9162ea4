"""Figure A5."""

from typing import ClassVar, final

from invariance.studies.figure_1 import METHODS
from invariance.studies.support.base import Arm
from invariance.studies.support.sweep import UPDATES_DIFFER, Sweep, batch_arms


@final
class FigureA5(Sweep):
    """Figure 1 on the other small data set."""

    number: ClassVar[str] = "Figure A5"
    position: ClassVar[int] = 11
    title: ClassVar[str] = "accuracy over batch size, Colored-FMNIST"
    caption: ClassVar[str] = (
        "As Figure 1, on Colored-FMNIST: average accuracy and accuracy gap over 19 test environments, in %, with a "
        "band of one standard deviation over seeds; the full batch (45,000 images, drawn at 50,000) at the right. "
        f"{UPDATES_DIFFER} The paper's claim: the same as on Colored-MNIST."
    )
    axis: ClassVar[str] = "batch size"
    log_x: ClassVar[bool] = True

    def arms(self, scale: str) -> list[Arm]:
        return batch_arms(scale, "Colored-FMNIST", METHODS)
