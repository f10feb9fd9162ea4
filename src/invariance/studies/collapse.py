"""How the paper's protocol, taken literally, ends, and how the debiased recipe does."""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import ClassVar, final

from invariance.core.artefacts import Artefact, Column, Curve, Figure, Flag, Line, Lines, Table
from invariance.experiments.run import Run
from invariance.studies.support.base import BASELINES, Arm, Results, Study, arm
from invariance.studies.support.scales import SCALES, Detail
from invariance.training.selection import Checkpoint

DATA = "Colored-MNIST"
METHODS = ("IRMv1", "REx", "BLOC-IRM")
"""Those that are drawn; the table has all."""
PAPER, DEBIASED = "paper", "debiased"
CHECKPOINTS: dict[Detail, int] = {"low": 2, "medium": 40, "high": 40}
"""Of the long runs."""
Measure = Callable[[Checkpoint], float]
MOMENTS = ("at the switch", "highest after it", "half-way", "end")
PANELS: dict[str, Measure] = {
    "average accuracy, %": lambda c: 100 * c.test.mean,
    "accuracy gap, %": lambda c: 100 * c.test.gap,
    "deviation of the logits": lambda c: c.diagnostics.logit_scale if c.diagnostics else 0.0,
}


@final
class Collapse(Study):
    """Accuracy, gap and the size of the logits over a run: a figure of some methods, a table of all."""

    title: ClassVar[str] = "Collapse: the paper's protocol and the debiased recipe over a run"
    caption: ClassVar[str] = (
        "Colored-MNIST, one seed. Above: the paper's small-batch protocol, 200 epochs at a constant rate, the weight "
        "of the penalty 1 and after a quarter of the run 10⁶. Below: the debiased recipe, 2 epochs of the environment "
        "classifier and 10 of the method. Where logits go to zero, the penalty is zero too: the model has collapsed."
    )
    most_seeds: ClassVar[int | None] = 1

    def arms(self, scale: str) -> list[Arm]:
        debiased = [arm(scale, method, DATA, DEBIASED, DEBIASED) for method in METHODS]
        return paper_arms(scale, (*BASELINES, "BLOC-IRM")) + debiased

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """A figure of three panels for each recipe and a table, of the first seed."""
        arms = results.arms
        first = [(a, row.runs[0]) for a in arms if (row := results.row(a)) and row.runs[0].history]
        drawn = [(a, run) for a, run in first if a.method in METHODS]
        panels = tuple(_panel(setting, measure, drawn) for setting in (PAPER, DEBIASED) for measure in PANELS)
        notes = results.notes(arms)
        figure = Figure(self.name, self.title, self.caption, panels, results.provenance, notes)
        columns = tuple(Column(name, moment) for moment in MOMENTS for name in ("average", "gap"))
        columns += (Column("at the switch", "logits"), Column("end", "logits"), Column("collapsed from"))
        lines = tuple(Line(a.method, _moments(run)) for a, run in first if a.setting == PAPER)
        title, about = "Collapse: every method by the paper's protocol", "Average accuracy and gap in %, of one seed. "
        about += "'Highest after it' looks at test environments. 'Collapsed from' is a share of the run."
        return figure, Table(f"{self.name}-table", title, about, "method", columns, lines, results.provenance, notes)


def paper_arms(scale: str, methods: Sequence[str]) -> list[Arm]:
    """The paper's protocol with many checkpoints."""
    often = {"evaluation": {"checkpoints": CHECKPOINTS[SCALES[scale].detail]}}
    return [arm(scale, method, DATA, PAPER, PAPER, often) for method in methods]


def _moments(run: Run) -> tuple[float | str, ...]:
    """A run in numbers: scores at four moments, deviations of the logits at two, and when it collapsed."""
    history, last = run.history, run.history[-1]
    at = [c.step / last.step for c in history]
    switch = max((i for i, share in enumerate(at) if share <= run.spec.recipe.warmup), default=0)
    half = min(range(len(at)), key=lambda i: abs(at[i] - 0.5))
    highest = max(history[switch:], key=lambda c: c.test.mean)
    scores = [
        100 * score for c in (history[switch], highest, history[half], last) for score in (c.test.mean, c.test.gap)
    ]
    logits = [PANELS["deviation of the logits"](c) for c in (history[switch], last)]
    collapsed = [share for share, c in zip(at, history, strict=True) if c.collapsed]
    return (*scores, *logits, collapsed[0] if collapsed else "never")


def _panel(setting: str, measure: str, drawn: Sequence[tuple[Arm, Run]]) -> Lines:
    """A measure over the runs of one recipe; the axes of both recipes reach equally far."""
    of = PANELS[measure]
    values = [value for _, run in drawn for value in map(of, run.history) if isfinite(value)]
    margin = 0.05 * (max(values) - min(values)) if values else 0.0
    span = (min(values) - margin, max(values) + margin) if margin else None
    curves = tuple(_curve(a, run, of) for a, run in drawn if a.setting == setting)
    return Lines(f"{setting}: {measure.partition(',')[0]}", "share of the run", measure, curves, span=span)


def _curve(arm: Arm, run: Run, of: Measure) -> Curve:
    x = tuple(c.step / run.history[-1].step for c in run.history)
    flags = tuple(Flag(at, of(c), "collapsed") for at, c in zip(x, run.history, strict=True) if c.collapsed)
    return Curve(arm.method, x, tuple(map(of, run.history)), method=arm.method, flags=flags)
