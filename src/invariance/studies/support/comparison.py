"""Methods of a user's choice on one data set: a study that nobody has named."""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import ClassVar, final

from invariance.core.artefacts import Artefact, Cell, Column, Figure, Line, Sparkline, Table
from invariance.experiments.selected_runs import SelectedRuns
from invariance.experiments.spec import Spec
from invariance.studies.support.base import METRICS, Arm, Results, Study
from invariance.studies.support.spectrum import spectrum
from invariance.training.selection import label

MISLED = 0.9
"""Of ERM's gap: a method with a larger one relies on the spurious cue as much as ERM does."""


@final
class Comparison(Study):
    """One arm per spec, the same at every scale."""

    title: ClassVar[str] = "Comparison of methods"
    caption: ClassVar[str] = "mean ± standard deviation over the seeds that finished. Seconds are per run."

    def __init__(self, specs: Sequence[Spec]) -> None:
        self.specs = specs

    def arms(self, scale: str) -> list[Arm]:
        return [Arm(s.method.title, s.data.title, s.recipe_name, s.trial) for s in self.specs]

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """A table with one line per method, and its accuracies in every test environment as curves."""
        title = _title(results)
        names = next((list(curve) for row in results.rows.values() if (curve := row.curve())), [])
        environments = f"{names[0]} … {names[-1]}" if names else "environments"
        caption = f"Accuracy in % over {len(names)} test environments, {self.caption}"
        columns = tuple(map(Column, (*METRICS, environments, "seconds")))
        lines = tuple(Line(arm.method, tuple(self._cells(results, arm))) for arm in results.arms)
        panel = spectrum("", {arm.method: row for arm in results.arms if (row := results.row(arm))})
        return (
            Table("compare", title, caption, "method", columns, lines, notes=tuple(_notes(results))),
            Figure("compare-curves", title, "", (panel,) if panel else ()),
        )

    def _cells(self, results: Results, arm: Arm) -> Iterator[Cell]:
        yield from (results.quantity(arm, metric, self.name) for metric in METRICS)
        row = results.row(arm)
        yield Sparkline(tuple(fmean(values) for values in row.curve().values())) if row else ""
        yield fmean(run.seconds for run in row.runs) if row else ""


def _title(results: Results) -> str:
    first = results.arms[0]
    seeds = sorted({run.spec.seed for row in results.rows.values() for run in row.runs})
    trials = [f"seeds {seeds[0]}–{seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"] if seeds else []
    checkpoint = f"checkpoint: {label(results.selection)}"
    return " · ".join([first.data, f"recipe {first.setting}", *trials, checkpoint])


def _notes(results: Results) -> Iterator[str]:
    """What a newcomer should read off the table."""
    rows = {arm.method: row for arm in results.arms if (row := results.row(arm)) and row.chosen}
    erm = next((row for row in rows.values() if row.spec.method_name == "erm"), None)
    invariant = {name: row for name, row in rows.items() if row.spec.method.needs_environments > 1}
    if erm and invariant:
        best = max(invariant, key=lambda name: _mean(invariant[name], "worst"))
        yield (
            f"Where the spurious cue misleads most, the accuracy of ERM is {_mean(erm, 'worst'):.0f} % and that of "
            f"{best} {_mean(invariant[best], 'worst'):.0f} %."
        )
        misled = [name for name, row in invariant.items() if _mean(row, "gap") > MISLED * _mean(erm, "gap")]
        if misled:
            yield f"As misled by the cue as ERM here: {', '.join(misled)} (see: invariance list methods)."
    if any(arm.spec and arm.spec.method.oracle for arm in results.arms):
        yield "GrayScale is an oracle: it never sees the spurious cue."


def _mean(row: SelectedRuns, metric: str) -> float:
    return fmean(row.values(metric))
