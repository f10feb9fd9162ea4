"""Runs made by hand, and the results of whole studies made of them."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from invariance.core.environment import BETAS
from invariance.core.one_look import one_look
from invariance.evaluation.diagnostics import Diagnostics
from invariance.evaluation.scores import Scores
from invariance.experiments.run import Run
from invariance.experiments.selected_runs import SelectedRuns
from invariance.experiments.spec import Spec
from invariance.studies.support.base import Arm, Results, Study
from invariance.training.selection import Checkpoint


@pytest.fixture(scope="module", autouse=True)
def files_are_looked_at_once() -> Iterator[None]:
    """As in a command: hundreds of specs name the same folders of images, and a key follows what these hold."""
    with one_look():
        yield


@pytest.fixture(scope="session")
def run() -> Callable[..., Run]:
    """A run whose last checkpoint has this average and gap, as shares; accuracy is a line in β."""

    def make(
        spec: Spec, average: float = 0.7, gap: float = 0.09, status: str = "finished", checkpoints: int = 3
    ) -> Run:
        scores = Scores({f"β={beta:g}": average + (0.5 - beta) * gap / 0.9 for beta in BETAS})
        history = []
        for step in range(1, checkpoints + 1):
            diagnostics = Diagnostics({"a": 0.5}, {"a": 0.1**step, "b": 0.0}, None, 1.0, 2.0, 1.0)
            constant = status == "collapsed" and step == checkpoints
            history.append(Checkpoint(step, 1.0, constant, scores, scores, scores, None, diagnostics, 0.5, 1.0))
        points = spec.evaluation.landscape
        grid = tuple(tuple(float(i + j) for j in range(points)) for i in range(points)) if points else None
        done = status not in ("diverged", "failed")
        return Run(spec, status, tuple(history) if done else (), 1.0, landscape=grid if done else None)

    return make


@pytest.fixture(scope="session")
def results(run: Callable[..., Run]) -> Callable[..., Results]:
    """Results of a study whose arms have all finished: seed s of the i-th arm has average 0.6 + 0.001 i + 0.01 s."""

    def make(
        study: Study,
        scale: str,
        seeds: int = 2,
        *,
        status: Callable[[int, int], str] = lambda arm, seed: "finished",
        having: Callable[[Arm], bool] = lambda arm: True,
    ) -> Results:
        plan = study.plan(scale)
        rows: dict[str, SelectedRuns] = {}
        for i, arm in enumerate(plan.arms):
            if arm.spec and not arm.waits and having(arm):
                each = [replace(arm.spec, seed=s) for s in range(seeds)]
                runs = [run(e, 0.6 + 0.001 * i + 0.01 * s, status=status(i, s)) for s, e in enumerate(each)]
                rows[arm.identity] = SelectedRuns.of(runs, "last")
        return Results(plan, "last", rows)

    return make
