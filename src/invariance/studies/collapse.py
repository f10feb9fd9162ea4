"""How the paper's protocol, taken literally, ends, and how our default does."""

from collections.abc import Callable
from typing import ClassVar, final

from invariance.artefacts import Artefact, Curve, Figure, Lines
from invariance.experiments.run import Run
from invariance.selection import Checkpoint
from invariance.studies.base import Arm, Results, Study, arm

DATA = "Colored-MNIST"
METHODS = ("IRMv1", "REx", "BLOC-IRM")
PAPER, DEFAULT = "paper", "default"
CHECKPOINTS = {"smoke": 2, "quick": 40, "ours": 40, "full": 40}
"""Of the long runs."""
Measure = Callable[[Checkpoint], float]
PANELS: dict[str, Measure] = {
    "average accuracy, %": lambda c: 100 * c.test.mean,
    "accuracy gap, %": lambda c: 100 * c.test.gap,
    "deviation of the logits": lambda c: c.vitals.logit_scale if c.vitals else 0.0,
}


@final
class Collapse(Study):
    """Accuracy, gap and the size of the logits over a run."""

    title: ClassVar[str] = "Collapse: the paper's protocol and our default over a run"
    caption: ClassVar[str] = (
        "Colored-MNIST, one seed. Dashed: the paper's small-batch protocol, 200 epochs at a constant rate, the weight "
        "of the penalty 1 and after a quarter of the run 10⁶. Solid: our default, 12 epochs. Where logits go to zero, "
        "the penalty is zero too: the model has collapsed."
    )
    most_seeds: ClassVar[int | None] = 1

    def arms(self, scale: str) -> list[Arm]:
        often = {"evaluation": {"checkpoints": CHECKPOINTS[scale]}}
        return [
            arm(scale, method, DATA, profile, profile, often if profile == PAPER else {})
            for profile in (PAPER, DEFAULT)
            for method in METHODS
        ]

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """One figure of three panels, of the first seed."""
        arms = self.arms(results.scale)
        found = [(a, row.runs[0]) for a in arms if (row := results.row(a)) and row.runs[0].history]
        panels = tuple(
            Lines(label.partition(",")[0], "share of the run", label, tuple(_curve(a, run, of) for a, run in found))
            for label, of in PANELS.items()
        )
        return (Figure(self.name, self.title, self.caption, panels, results.provenance, results.notes(arms)),)


def _curve(arm: Arm, run: Run, of: Measure) -> Curve:
    x = tuple(c.step / run.history[-1].step for c in run.history)
    return Curve(f"{arm.method}, {arm.setting}", x, tuple(map(of, run.history)), dashed=arm.setting == PAPER)
