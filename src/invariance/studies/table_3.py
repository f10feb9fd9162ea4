"""Table 3."""

from dataclasses import replace
from statistics import fmean
from typing import ClassVar, final

from invariance.core.artefacts import Artefact, Line, Quantity, Table
from invariance.studies.support.accuracy import accuracy_table
from invariance.studies.support.base import BASELINES, Arm, Results, Study, arm
from invariance.studies.support.printed import printed

DATA = "Colored-MNIST"
RECIPES = {
    "large batch": "full-batch",
    "large batch + LSGD": "full-batch+lsgd",
    "large batch + LALR": "full-batch+lalr",
    "large batch + SAM": "full-batch+sam",
    "small batch": "small-batch",
}


@final
class Table3(Study):
    """What helps large batches, against small ones: every baseline under five recipes."""

    title: ClassVar[str] = "Table 3: remedies for large batches against small batches"
    caption: ClassVar[str] = (
        "Average accuracy over 19 test environments of Colored-MNIST, in %. LSGD scales and ramps up the learning "
        "rate, LALR adapts it layer by layer, SAM looks for flat minima. The paper's claim: each of them helps a "
        "little, and small batches help most."
    )

    def arms(self, scale: str) -> list[Arm]:
        return [
            arm(scale, method, DATA, setting, recipe) for setting, recipe in RECIPES.items() for method in BASELINES
        ]

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """One table, closed by the average of its lines."""
        table = accuracy_table(self, results, ("average",))
        return (replace(table, lines=(*table.lines, _average(table, self.name))),)


def _average(table: Table, study: str) -> Line:
    """The mean of each column over methods, where every method has a value."""
    cells = []
    for column, setting in enumerate(RECIPES):
        each = [line.cells[column] for line in table.lines]
        means = [cell.mean for cell in each if isinstance(cell, Quantity) and cell.ours]
        missing = len(each) - len(means)
        note = f"{missing} of {len(each)} methods without a value" if missing else ""
        ours = () if missing else (fmean(means),)
        cells.append(Quantity(ours, printed(study, DATA, setting, "Average", "average"), note))
    return Line("Average", tuple(cells))
