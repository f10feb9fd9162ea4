"""Tables of accuracies: methods down, settings across, average and gap in each."""

from collections.abc import Iterator
from typing import ClassVar

from invariance.core.artefacts import Artefact, Column, Line, Table
from invariance.studies.support.base import Arm, Results, Study
from invariance.studies.support.paired import Pair, paired_table

AVERAGE_AND_GAP = ("average", "gap")


def accuracy_table(study: Study, results: Results, metrics: tuple[str, ...] = AVERAGE_AND_GAP) -> Table:
    """One line per method and one group of columns per setting; an arm that is not asked for is left blank.

    A single metric needs no column heading of its own, nor does a setting that all arms share.
    """
    arms = {(a.method, a.data, a.setting): a for a in results.arms}
    groups = list(dict.fromkeys((data, setting) for _, data, setting in arms))
    lines = []
    for method in dict.fromkeys(method for method, _, _ in arms):
        own = [arms.get((method, *group)) for group in groups]
        cells = [results.quantity(a, m, study.name) if a else "" for a in own for m in metrics]
        lines.append(Line(method, tuple(cells)))
    columns = tuple(
        Column(metric, group_name(results, *group)) if len(metrics) > 1 else Column(*reversed(group))
        for group in groups
        for metric in metrics
    )
    return Table(
        study.name, study.title, study.caption, "method", columns, tuple(lines), results.provenance, number=study.number
    )


def group_name(results: Results, data: str, setting: str) -> str:
    """The heading of a data set in a setting; of the two, what all arms share is left out."""
    data_sets, settings = ({getattr(arm, name) for arm in results.arms} for name in ("data", "setting"))
    if len(settings) == 1:
        return data
    return setting if len(data_sets) == 1 else f"{data} · {setting}"


class AccuracyTable(Study):
    """A study that shows such a table, and how much better one method is than every other."""

    metrics: ClassVar[tuple[str, ...]] = AVERAGE_AND_GAP
    reference: ClassVar[str] = "BLOC-IRM"
    """The method that all others are compared with, seed by seed."""

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """One table of accuracies, and one of differences."""
        what = f"every method less {self.reference}, seed by seed"
        return (
            accuracy_table(self, results, self.metrics),
            *paired_table(results, self.pairs(results), what, self.metrics),
        )

    def pairs(self, results: Results) -> Iterator[Pair]:
        """Every method beside the reference on the same data, in the same setting."""
        others: dict[tuple[str, str], Arm] = {
            (a.data, a.setting): a for a in results.arms if a.method == self.reference
        }
        for arm in results.arms:
            other = others.get((arm.data, arm.setting))
            if other and other is not arm:
                yield Pair(arm.method, group_name(results, arm.data, arm.setting), arm, other)
