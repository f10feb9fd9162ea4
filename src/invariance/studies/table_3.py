"""Table 3."""

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean
from typing import ClassVar, final

from invariance.core.artefacts import Artefact, Line, Quantity, Table
from invariance.studies.support.accuracy import accuracy_table
from invariance.studies.support.base import BASELINES, Arm, Results, Study, arm
from invariance.studies.support.paired import Pair, paired_table
from invariance.studies.support.printed import printed

DATA, SMALL = "Colored-MNIST", "small batch"
RECIPES = {
    "large batch": "full-batch",
    "large batch + LSGD": "full-batch+lsgd",
    "large batch + LALR": "full-batch+lalr",
    "large batch + SAM": "full-batch+sam",
    SMALL: "small-batch",
}


@final
class Table3(Study):
    """What helps large batches, against small ones: every baseline under five recipes."""

    number: ClassVar[str] = "Table 3"
    position: ClassVar[int] = 3
    title: ClassVar[str] = "remedies for large batches against small batches"
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
        """One table, closed by the average of its lines, and what small batches gain over each remedy."""
        table = accuracy_table(self, results, ("average",))
        table = replace(table, lines=(*table.lines, _average(table, self.name)))
        what = "small batches less each alternative, seed by seed"
        return table, *paired_table(results, _pairs(results), what, ("average",))


def _pairs(results: Results) -> Iterator[Pair]:
    small = {a.method: a for a in results.arms if a.setting == SMALL}
    for other in results.arms:
        if other.setting != SMALL:
            yield Pair(other.method, other.setting, small[other.method], other)


def _average(table: Table, study: str) -> Line:
    """The mean of each column over methods, where every method has a value."""
    cells = []
    for column, setting in enumerate(RECIPES):
        each = [line.cells[column] for line in table.lines]
        means = [cell.mean for cell in each if isinstance(cell, Quantity) and cell.ours]
        missing = len(each) - len(means)
        note = f"{missing} of {len(each)} methods without a value" if missing else ""
        ours = () if missing else (fmean(means),)
        cells.append(Quantity(ours, printed(study, DATA, setting, "Average", "average"), note, metric="average"))
    return Line("Average", tuple(cells))
