"""Table A4."""

from typing import ClassVar, final

from invariance.studies.support.accuracy import AccuracyTable
from invariance.studies.support.base import BASELINES, OWN, Arm, arm


@final
class TableA4(AccuracyTable):
    """A second thing that changes between training environments: how frequent classes, digits or shades are."""

    number: ClassVar[str] = "Table A4"
    position: ClassVar[int] = 15
    title: ClassVar[str] = "environments that also differ in classes, digits or shades"
    caption: ClassVar[str] = (
        "Average accuracy and accuracy gap over 19 test environments, in %; small batches. Training environments "
        "differ in β and in one more respect (Krueger et al. 2021), here at p = 0.5, a number the paper does not "
        "give; test environments are balanced. The paper's claim: every method loses, and BLOC-IRM mostly stays "
        "ahead."
    )

    def arms(self, scale: str) -> list[Arm]:
        return [
            arm(scale, method, data, f"{shift} imbalance", "small-batch", {"data": {"shift": shift}})
            for data in ("Colored-MNIST", "Colored-FMNIST")
            for shift in ("class", "digit", "colour")
            for method in ("GrayScale", "ERM", *BASELINES, "BLOC-IRM", OWN)
        ]
