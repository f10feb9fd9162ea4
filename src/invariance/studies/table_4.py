"""Table 4."""

from typing import ClassVar, final

from invariance.studies.support.accuracy import AccuracyTable
from invariance.studies.support.base import BASELINES, Arm, arm


@final
class Table4(AccuracyTable):
    """Every baseline in large and in small batches, on two data sets, beside GrayScale and ERM."""

    title: ClassVar[str] = "Table 4: large and small batches"
    caption: ClassVar[str] = (
        "Average accuracy and accuracy gap over 19 test environments, in %. GrayScale never sees colour; the best "
        "possible average is 75 %. The paper's claim: every method gains by small batches."
    )

    def arms(self, scale: str) -> list[Arm]:
        sets = ("Colored-MNIST", "Colored-FMNIST")
        references = [arm(scale, m, data, "reference", "small-batch") for data in sets for m in ("GrayScale", "ERM")]
        regimes = [
            arm(scale, method, data, setting, recipe)
            for setting, recipe in (("large batch", "full-batch"), ("small batch", "small-batch"))
            for data in sets
            for method in BASELINES
        ]
        return references + regimes
