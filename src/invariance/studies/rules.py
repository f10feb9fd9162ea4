"""What a selection rule is worth, profile by profile."""

from collections.abc import Sequence
from typing import ClassVar, final

from invariance.core.artefacts import Artefact, Column, Line, Quantity, Table
from invariance.experiments.selected_runs import SelectedRuns
from invariance.studies.collapse import METHODS, PAPER, paper_arms
from invariance.studies.support.base import METRICS, Arm, Results, Study, arm
from invariance.training.selection import RULES, label

DATA = ("Colored-MNIST", "Colored-FMNIST")
PROFILES = {"debiased": "debiased", "penalty alone": "short"}
COLUMNS = (*PROFILES, PAPER)


@final
class Rules(Study):
    """The same runs at the checkpoints that different rules take."""

    title: ClassVar[str] = "Rules: which checkpoint should count?"
    caption: ClassVar[str] = (
        "Accuracy over 19 test environments, in %, of IRMv1, REx and BLOC-IRM at the checkpoints that each rule takes "
        "of the same runs, on Colored-MNIST and, but for the paper's profile, Colored-FMNIST. The oracle looks at the "
        "test environments; the others see samples held out from the training environments at most."
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
        seeds = results.provenance.partition(" · checkpoint")[0]
        return (Table(self.name, self.title, self.caption, "rule", columns, lines, seeds, results.notes(arms)),)


def _quantity(results: Results, arms: Sequence[Arm], profile: str, rule: str, metric: str) -> Quantity:
    """A value for every run of a profile; a run whose chosen model has collapsed has none, and is counted."""
    rows = [SelectedRuns.of(row.runs, rule) for a in arms if a.setting == profile and (row := results.row(a))]
    failures = sum(len(row.failures) for row in rows)
    values = tuple(value for row in rows for value in row.values(METRICS[metric]))
    return Quantity(values, note=f"{failures} of {failures + len(values)} without a value" if failures else "")
