"""What shared stages save: a comparison of all methods, and the trials of one method with other penalty weights.

Every run is made twice on embedded data, one after another in this process: alone, and with the stages and dropout
masks of the runs before it. Records must be equal bit for bit. By processor time. Trials differ in γ alone; a search
that also varies the learning rate shares nothing before the switch.

Aims: the comparison at least 2 times as fast, trials at most 0.4 of their cost.
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from harness import Options, show

from invariance.experiments.run import Run, execute
from invariance.experiments.spec import Spec
from invariance.experiments.stage_cache import stages
from invariance.methods import METHODS
from invariance.training.masks import Masks


def alone(specs: Sequence[Spec]) -> list[Run]:
    return [execute(spec).run for spec in specs]


def shared(specs: Sequence[Spec], folder: Path) -> tuple[list[Run], int]:
    """The runs, and how many of their updates were there."""
    masks, runs, updates = Masks(), [], 0
    for spec in specs:
        found = stages(spec, folder, "cpu", None, masks)
        runs.append(execute(spec, stages=found).run)
        updates += found.updates if found else 0
    return runs, updates


def measured(specs: Sequence[Spec]) -> dict[str, object]:
    """Seconds of all runs in both ways."""
    start = time.process_time()
    expected = alone(specs)
    without = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        runs, updates = shared(specs, Path(folder))
        own = time.process_time() - start
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
    assert [replace(run, seconds=0.0) for run in runs] == [replace(run, seconds=0.0) for run in expected]
    return {
        "runs": len(specs),
        "alone, s": without,
        "shared, s": own,
        "times as fast": without / own,
        "share of the cost": own / without,
        "updates that were there": f"{updates / sum(run.updates for run in runs):.0%}",
        "MB": size / 1e6,
    }


def main() -> None:
    options = Options.parse(__doc__)
    torch.set_num_threads(1)
    draws = {"draws": 1000} if options.quick else {}
    weights = [10.0**power for power in range(10 if not options.quick else 2)]
    trials = [
        Spec.of("colored-digits", "rex", "default", 0, {"data": draws, "method": {"gamma": gamma}}) for gamma in weights
    ]
    execute(trials[0])  # what is imported once is not measured
    comparison = [Spec.of("colored-digits", name, "default", 0, {"data": draws}) for name in METHODS.classes]
    debiased = [Spec.of("colored-digits", name, "debiased", 0, {"data": draws}) for name in METHODS.classes]
    rows = [
        {"what": "all methods, two-phase"} | measured(comparison),
        {"what": "all methods, debiased"} | measured(debiased),
        {"what": f"REx, {len(weights)} weights"} | measured(trials),
    ]
    show("Shared stages", rows, "Records are equal bit for bit.", options, "stages")


if __name__ == "__main__":
    main()
