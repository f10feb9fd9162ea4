"""Tables of accuracies: methods down, settings across, average and gap in each."""

from typing import ClassVar

from invariance.core.artefacts import Artefact, Column, Line, Table
from invariance.studies.support.base import Results, Study

AVERAGE_AND_GAP = ("average", "gap")


def accuracy_table(study: Study, results: Results, metrics: tuple[str, ...] = AVERAGE_AND_GAP) -> Table:
    """One line per method and one group of columns per setting; an arm that is not asked for is left blank.

    A single metric needs no column heading of its own.
    """
    arms = {(a.method, a.data, a.setting): a for a in results.arms}
    groups = list(dict.fromkeys((data, setting) for _, data, setting in arms))
    lines = []
    for method in dict.fromkeys(method for method, _, _ in arms):
        own = [arms.get((method, *group)) for group in groups]
        cells = [results.quantity(a, m, study.name) if a else "" for a in own for m in metrics]
        lines.append(Line(method, tuple(cells)))
    columns = tuple(
        Column(metric, " · ".join(group)) if len(metrics) > 1 else Column(*reversed(group))
        for group in groups
        for metric in metrics
    )
    return Table(study.name, study.title, study.caption, "method", columns, tuple(lines), results.provenance)


class AccuracyTable(Study):
    """A study whose only artefact is such a table."""

    metrics: ClassVar[tuple[str, ...]] = AVERAGE_AND_GAP

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """One table."""
        return (accuracy_table(self, results, self.metrics),)
