"""Table A5."""

from typing import ClassVar, final

from invariance.studies.support.accuracy import AccuracyTable
from invariance.studies.support.base import OWN, Arm, arm
from invariance.studies.table_a2 import adjusted


@final
class TableA5(AccuracyTable):
    """A case in which IRMv1 is known to do worse than ERM (Kamath et al. 2021)."""

    number: ClassVar[str] = "Table A5"
    position: ClassVar[int] = 16
    title: ClassVar[str] = "a failure case of IRMv1"
    caption: ClassVar[str] = (
        "Average accuracy and accuracy gap over 19 test environments of Colored-MNIST, in %, with label noise α = "
        "0.1 and training at β = 0.2 and 0.25, where shape predicts better than colour; the best possible average is "
        "90 %. By the recipe two-phase, penalties have twice the updates, IRMv1 also four times the weight, as in "
        "Table A2, where environments differ as little. The paper's text names one test environment, β = 0.9, yet "
        "prints an average and a gap. Its claim: IRMv1 falls behind ERM, BLOC-IRM does not."
    )

    def arms(self, scale: str) -> list[Arm]:
        data = {"alpha": 0.1, "betas": [0.2, 0.25]}
        return [
            arm(
                scale,
                method,
                "Colored-MNIST",
                "α 0.1, β 0.2, 0.25",
                "small-batch",
                {"data": data, **adjusted(scale, method)},
            )
            for method in ("ERM", "IRMv1", "BLOC-IRM", OWN)
        ]
