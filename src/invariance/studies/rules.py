"""What a selection rule is worth, profile by profile."""

from collections.abc import Sequence
from typing import ClassVar, final

from invariance.core.artefacts import Artefact, Column, Line, Quantity, Table
from invariance.experiments.selected_runs import SelectedRuns
from invariance.studies.collapse import METHODS, PAPER, paper_arms
from invariance.studies.support.base import METRICS, Arm, Results, Study, arm
from invariance.training.selection import RULES, label

DATA = ("Colored-MNIST", "Colored-FMNIST")
PROFILES = {"debiased": "debiased", "penalty alone": "two-phase"}
COLUMNS = (*PROFILES, PAPER)


@final
class Rules(Study):
    """The same runs at the checkpoints that different rules take."""

    title: ClassVar[str] = "Rules: which checkpoint should count?"
    caption: ClassVar[str] = (
        "Accuracy over 19 test environments, in %, of IRMv1, REx and BLOC-IRM at the checkpoints that each rule takes "
        "of the same runs, on Colored-MNIST and, but for the paper's profile, Colored-FMNIST. The oracle looks at the "
        "test environments; the others see samples held out from the training environments at most. ± is the "
        "population standard deviation over all runs of a profile, of three methods on one or two data sets, and not "
        "over seeds of one method."
    )

    def arms(self, scale: str) -> list[Arm]:
        ours = [
            arm(scale, method, data, profile, recipe)
            for profile, recipe in PROFILES.items()
            for data in DATA
            for method in METHODS
        ]
        return ours + paper_arms(scale, METHODS)

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """One table: rules down, profiles across."""
        arms = results.arms
        rules = [name for name, rule in RULES.items() if not rule.holds_out]
        lines = tuple(
            Line(label(rule), tuple(_quantity(results, arms, profile, rule, m) for profile in COLUMNS for m in METRICS))
            for rule in rules
        )
        columns = tuple(Column(metric, profile) for profile in COLUMNS for metric in METRICS)
        made, notes, over = results.runs_text, results.notes(arms), "runs of a profile"
        return (Table(self.name, self.title, self.caption, "rule", columns, lines, made, notes, over=over),)


def _quantity(results: Results, arms: Sequence[Arm], profile: str, rule: str, metric: str) -> Quantity:
    """A value for every run of a profile; a run whose chosen model has collapsed has none, and is counted."""
    rows = [
        SelectedRuns.of(row.runs, rule, with_collapsed=results.with_collapsed)
        for a in arms
        if a.setting == profile and (row := results.row(a))
    ]
    values = tuple(value for row in rows for value in row.values(METRICS[metric]))
    runs, collapsed = sum(len(row.runs) for row in rows), sum(row.collapsed for row in rows)
    note = f"{runs - len(values)} of {runs} without a value" if len(values) < runs else ""
    return Quantity(values, None, note, runs, collapsed, metric)
