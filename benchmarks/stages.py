"""What shared stages save: comparisons of methods, and the trials of one method with other penalty weights.

Runs on embedded data in this process, by processor time. Every run is made with the data, stages and dropout masks of
the runs before it, and right after that alone; of the trials, one in ten. The records must be equal bit for bit. Trials
differ in γ alone; a search that also varies the learning rate shares nothing before the switch.

Aims: a comparison at least 2 times as fast, trials at most 0.4 of their cost.
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from harness import Options, show

from invariance.experiments.run import LoadedData, Run, execute
from invariance.experiments.spec import Spec
from invariance.experiments.stage_cache import beginning, stages
from invariance.methods import METHODS
from invariance.training.masks import Masks
from invariance.training.stages import Stages


def timed(spec: Spec, own: Stages | None = None, loaded: LoadedData | None = None) -> tuple[Run, float]:
    """A run and its seconds."""
    start = time.process_time()
    run = execute(spec, stages=own, loaded=loaded).run
    return replace(run, seconds=0.0), time.process_time() - start


def measured(specs: Sequence[Spec], every: int = 1) -> dict[str, object]:
    """Seconds of all runs with what they share, and of every so many of them alone, counted for all."""
    masks, loaded = Masks(), LoadedData()
    alone, shared, updates, there = 0.0, 0.0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for i, spec in enumerate(specs):
            found = stages(spec, Path(folder), "cpu", None, masks)
            run, seconds = timed(spec, found, loaded)
            shared, updates, there = shared + seconds, updates + run.updates, there + (found.updates if found else 0)
            if i % every == 0:
                same, seconds = timed(spec)
                alone += seconds * every
                assert run == same
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
    return {
        "runs": len(specs),
        "alone, s": alone,
        "shared, s": shared,
        "times as fast": alone / shared,
        "share of the cost": shared / alone,
        "updates that were there": f"{there / updates:.0%}",
        "MB": size / 1e6,
    }


def alike(specs: Sequence[Spec]) -> list[Spec]:
    """The most of these runs that begin alike."""
    groups: dict[str, list[Spec]] = {}
    for spec in specs:
        groups.setdefault(beginning(spec), []).append(spec)
    return max(groups.values(), key=len)


def main() -> None:
    options = Options.parse(__doc__)
    torch.set_num_threads(1)
    draws = {"draws": 1000} if options.quick else {}
    weights = [10.0 ** (i / 20) for i in range(20 if options.quick else 200)]
    trials = [
        Spec.of("colored-digits", "rex", "default", 0, {"data": draws, "method": {"gamma": gamma}}) for gamma in weights
    ]
    execute(trials[0])  # what is imported once is not measured
    names = [name for name in METHODS.classes if name != "subset-erm"]  # as it stands, that is ERM
    comparison = [Spec.of("colored-digits", name, "default", 0, {"data": draws}) for name in names]
    debiased = [Spec.of("colored-digits", name, "debiased", 0, {"data": draws}) for name in names]
    common = alike(comparison)
    titles = ", ".join(spec.method.title for spec in common)
    rows = [
        {"what": "all methods, two-phase"} | measured(comparison),
        {"what": f"{titles}, two-phase"} | measured(common),
        {"what": "all methods, debiased"} | measured(debiased),
        {"what": f"REx, {len(weights)} weights"} | measured(trials, every=10),
    ]
    show("Shared stages", rows, "Records are equal bit for bit.", options, "stages")


if __name__ == "__main__":
    main()
