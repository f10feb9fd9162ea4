"""Table A1."""

from typing import ClassVar, final

from invariance.studies.support.accuracy import AccuracyTable
from invariance.studies.support.base import OWN, Arm, arm
from invariance.studies.table_5 import LARGER, METHODS


@final
class TableA1(AccuracyTable):
    """Table 5 with the two small data sets beside it."""

    number: ClassVar[str] = "Table A1"
    position: ClassVar[int] = 12
    title: ClassVar[str] = "all methods on all seven data sets"
    caption: ClassVar[str] = (
        "Average accuracy and accuracy gap over the test environments, in %; small batches throughout. The paper's "
        "claim: BLOC-IRM has the highest average on every data set."
    )

    def arms(self, scale: str) -> list[Arm]:
        sets = ("Colored-MNIST", "Colored-FMNIST", *LARGER)
        return [arm(scale, method, data, "small batch", "small-batch") for data in sets for method in (*METHODS, OWN)]
