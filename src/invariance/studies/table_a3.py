"""Table A3."""

from typing import ClassVar, final

from invariance.studies.support.accuracy import AccuracyTable
from invariance.studies.support.base import Arm, arm


@final
class TableA3(AccuracyTable):
    """BLOC-IRM with the penalties of other methods in its upper level."""

    number: ClassVar[str] = "Table A3"
    position: ClassVar[int] = 14
    title: ClassVar[str] = "what BLOC-IRM penalises"
    caption: ClassVar[str] = (
        "Average accuracy and accuracy gap over 19 test environments, in %; small batches. BLOC-IRM penalises the "
        "gradient by the head; the others put the penalty of IRMv1, REx or Fishr in its place. SparseIRM stands for "
        "the baselines. The paper's claim: the gradient by the head is the best choice."
    )

    def arms(self, scale: str) -> list[Arm]:
        methods = ("SparseIRM", "BLOC-IRM", "BLOC-IRM-v1", "BLOC-IRM-REx", "BLOC-IRM-Fishr")
        sets = ("Colored-MNIST", "Colored-Object", "CIFAR-MNIST")
        return [arm(scale, method, data, "small batch", "small-batch") for data in sets for method in methods]
