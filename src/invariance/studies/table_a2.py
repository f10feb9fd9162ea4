"""Table A2."""

from dataclasses import replace
from typing import ClassVar, final

from invariance.core.artefacts import Artefact, Line, Quantity, Table
from invariance.studies.support.accuracy import AVERAGE_AND_GAP, AccuracyTable
from invariance.studies.support.base import BASELINES, OWN, Arm, Results, arm
from invariance.studies.support.printed import printed

DATA = "Colored-MNIST"
METHODS = ("GrayScale", "ERM", *BASELINES, "BLOC-IRM", OWN)
ENVIRONMENTS = {"β 0.1, 0.15": [0.1, 0.15], "β 0.1, 0.15, 0.2": [0.1, 0.15, 0.2]}


@final
class TableA2(AccuracyTable):
    """Other training environments than β = 0.1 and 0.2: two that are more alike, and three."""

    number: ClassVar[str] = "Table A2"
    position: ClassVar[int] = 13
    title: ClassVar[str] = "other training environments"
    caption: ClassVar[str] = (
        "Average accuracy and accuracy gap over 19 test environments of Colored-MNIST, in %, after training where "
        "colour contradicts the label with the given probabilities β. The optimum reads shape alone and is not run. "
        "The paper's claim: BLOC-IRM stays ahead of the baselines."
    )

    def arms(self, scale: str) -> list[Arm]:
        return [
            arm(scale, method, DATA, setting, "small-batch", {"data": {"betas": betas}})
            for setting, betas in ENVIRONMENTS.items()
            for method in METHODS
        ]

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """The table of accuracies headed by the optimum, and that of differences."""
        cells = tuple(
            Quantity((), printed(self.name, DATA, setting, "Optimum", metric), "by theory, not by a run", metric=metric)
            for setting in ENVIRONMENTS
            for metric in AVERAGE_AND_GAP
        )
        table, *differences = super().show(results)
        assert isinstance(table, Table)  # noqa: S101 - the first of the two
        return replace(table, lines=(Line("Optimum", cells), *table.lines)), *differences
