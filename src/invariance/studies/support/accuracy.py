"""Tables of accuracies: methods down, settings across, average and gap in each."""

from typing import ClassVar

from invariance.core.artefacts import Artefact, Column, Line, Table
from invariance.studies.support.base import Results, Study

METRICS = ("average", "gap")


def accuracy_table(study: Study, results: Results, metrics: tuple[str, ...] = METRICS) -> Table:
    """A line a method and a group of columns a setting; an arm that is not asked for is left blank.

    A single metric needs no column heading of its own.
    """
    arms = {(a.method, a.data, a.setting): a for a in study.arms(results.scale)}
    groups = list(dict.fromkeys((data, setting) for _, data, setting in arms))
    lines = []
    for method in dict.fromkeys(method for method, _, _ in arms):
        found = [arms.get((method, *group)) for group in groups]
        cells = [results.quantity(a, m, study.name) if a else "" for a in found for m in metrics]
        lines.append(Line(method, tuple(cells)))
    columns = tuple(
        Column(metric, " · ".join(group)) if len(metrics) > 1 else Column(*reversed(group))
        for group in groups
        for metric in metrics
    )
    return Table(study.name, study.title, study.caption, "method", columns, tuple(lines), results.provenance)


class AccuracyTable(Study):
    """A study whose only artefact is such a table."""

    metrics: ClassVar[tuple[str, ...]] = METRICS

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """One table."""
        return (accuracy_table(self, results, self.metrics),)
