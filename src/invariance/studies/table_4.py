"""Table 4."""

from collections.abc import Iterator
from typing import ClassVar, final

from invariance.core.artefacts import Artefact, Cell, Column, Line, Table
from invariance.studies.support.accuracy import AVERAGE_AND_GAP
from invariance.studies.support.base import BASELINES, Arm, Results, Study, arm
from invariance.studies.support.paired import Pair, paired_table

DATA = ("Colored-MNIST", "Colored-FMNIST")
LARGE, SMALL, REFERENCE = "large batch", "small batch", "reference"


@final
class Table4(Study):
    """Every baseline in large and in small batches, on two data sets, beside GrayScale and ERM."""

    number: ClassVar[str] = "Table 4"
    position: ClassVar[int] = 4
    title: ClassVar[str] = "large and small batches"
    caption: ClassVar[str] = (
        "Average accuracy and accuracy gap over 19 test environments, in %. GrayScale never sees colour; the best "
        "possible average is 75 %. GrayScale and ERM are trained in small batches alone. The paper's claim: every "
        "method gains by small batches."
    )

    def arms(self, scale: str) -> list[Arm]:
        references = [arm(scale, m, data, REFERENCE, "small-batch") for data in DATA for m in ("GrayScale", "ERM")]
        regimes = [
            arm(scale, method, data, setting, recipe)
            for setting, recipe in ((LARGE, "full-batch"), (SMALL, "small-batch"))
            for data in DATA
            for method in BASELINES
        ]
        return references + regimes

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """The table with large and small batches side by side, and what small batches gain."""
        places = [(data, metric, batch) for data in DATA for metric in AVERAGE_AND_GAP for batch in (LARGE, SMALL)]
        at = {(a.method, a.data, SMALL if a.setting == REFERENCE else a.setting): a for a in results.arms}

        def cell(method: str, data: str, metric: str, batch: str) -> Cell:
            own = at.get((method, data, batch))
            return results.quantity(own, metric, self.name) if own else ""

        lines = tuple(
            Line(method, tuple(cell(method, *place) for place in places))
            for method in dict.fromkeys(a.method for a in results.arms)
        )
        columns = tuple(Column(batch, f"{data} · {metric}") for data, metric, batch in places)
        table = Table(
            *(self.name, self.title, self.caption, "method", columns, lines, results.provenance), number=self.number
        )
        what = "small less large batches, seed by seed"
        return table, *paired_table(results, _pairs(at), what, AVERAGE_AND_GAP)


def _pairs(at: dict[tuple[str, str, str], Arm]) -> Iterator[Pair]:
    for (method, data, batch), small in at.items():
        if batch == SMALL and (large := at.get((method, data, LARGE))):
            yield Pair(method, data, small, large)
