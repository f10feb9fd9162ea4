"""Figure 2."""

from dataclasses import replace
from typing import ClassVar, final

from invariance.core.artefacts import Artefact, Boxes, Column, Figure, Line, Lines, Mark, Quantity, Table
from invariance.studies.support.base import Arm, Results, Study, arm
from invariance.studies.support.spectrum import UNIT, accuracy_curve, flagged

DEFAULT = "β=0.9"
"""The only test environment of the literature before the paper."""
AT_DEFAULT = Mark(0.9, "β = 0.9, the only test environment before the paper", "triangle")


@final
class Figure2(Study):
    """Why one test environment is not enough: three methods over all of them."""

    number: ClassVar[str] = "Figure 2"
    position: ClassVar[int] = 2
    title: ClassVar[str] = "accuracy in every test environment"
    caption: ClassVar[str] = (
        "Left: accuracy in % where colour contradicts the label with probability β, with a band of one standard "
        "deviation over seeds and ▲ at β = 0.9; training saw β = 0.1 and 0.2. Right: the same numbers of all seeds, "
        "without β. Colored-MNIST, large batches. For one predictor accuracy is exactly a straight line in β, so a box "
        "shows nothing that the line does not. The paper's claim: the best method at β = 0.9 is not the best "
        "elsewhere, and IRMv1 is best on average."
    )

    def arms(self, scale: str) -> list[Arm]:
        methods = ("IRMv1", "IRM-Game", "Fishr")
        return [arm(scale, method, "Colored-MNIST", "large batch", "full-batch") for method in methods]

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """The figure, and its averages beside those that the paper gives in words."""
        arms = results.arms
        rows = {a.method: row for a in arms if (row := results.row(a)) and row.chosen}
        accuracy = {name: row.curve() for name, row in rows.items()}
        curves = tuple(flagged(accuracy_curve(*item), rows[item[0]]) for item in accuracy.items())
        panels = (
            Lines("over β", "β", UNIT, curves, marks=(AT_DEFAULT,)),
            Boxes("over all environments", UNIT, {name: _all(each) for name, each in accuracy.items()}),
        )
        lines = tuple(Line(a.method, self._cells(results, a)) for a in arms)
        columns = (Column("average"), Column("gap"), Column(f"at {DEFAULT}"))
        caption = "In %, over 19 test environments and at the one that earlier work looked at; averages as printed."
        title, notes = f"{self.title}: averages", results.notes(arms)
        return (
            Figure(self.name, self.title, self.caption, panels, results.provenance, notes, self.number),
            Table(
                f"{self.name}-averages",
                title,
                caption,
                "method",
                columns,
                lines,
                results.provenance,
                number=self.number,
            ),
        )

    def _cells(self, results: Results, arm: Arm) -> tuple[Quantity, ...]:
        average, gap = (results.quantity(arm, metric, self.name) for metric in ("average", "gap"))
        row = results.row(arm)
        there = row.curve().get(DEFAULT, []) if row else []
        return average, gap, replace(gap, ours=tuple(there), metric="accuracy")


def _all(accuracy: dict[str, list[float]]) -> tuple[float, ...]:
    return tuple(value for values in accuracy.values() for value in values)
