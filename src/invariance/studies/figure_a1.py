"""Figure A1."""

from typing import ClassVar, final

from invariance.studies.support.base import BASELINES, Arm
from invariance.studies.support.sweep import UPDATES_DIFFER, Sweep, batch_arms


@final
class FigureA1(Sweep):
    """All baselines over the size of a batch."""

    number: ClassVar[str] = "Figure A1"
    position: ClassVar[int] = 7
    title: ClassVar[str] = "accuracy over batch size, all baselines"
    caption: ClassVar[str] = (
        "As Figure 1, for all seven baselines: average accuracy and accuracy gap over 19 test environments of "
        "Colored-MNIST, in %, with a band of one standard deviation over seeds; the full batch at the right. "
        f"{UPDATES_DIFFER} IRM-Game may stop before its last update. The paper's claim: no method is at its best with "
        "the full batch."
    )
    axis: ClassVar[str] = "batch size"
    log_x: ClassVar[bool] = True

    def arms(self, scale: str) -> list[Arm]:
        return batch_arms(scale, "Colored-MNIST", BASELINES)
