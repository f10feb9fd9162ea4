"""What shared stages save: a comparison of all methods, and the trials of one method with other penalty weights.

Every run is made twice on embedded data, in turns in this process: alone, and with the stages and dropout masks of the
runs before it. Records must be equal bit for bit. By processor time. Trials differ in γ alone; a search
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

from invariance.experiments.run import execute
from invariance.experiments.spec import Spec
from invariance.experiments.stage_cache import stages
from invariance.methods import METHODS
from invariance.training.masks import Masks


def measured(specs: Sequence[Spec]) -> dict[str, object]:
    """Seconds of all runs in both ways, which take turns."""
    masks, seconds, updates, there = Masks(), {"alone": 0.0, "shared": 0.0}, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for spec in specs:
            found = stages(spec, Path(folder), "cpu", None, masks)
            runs = {}
            for way, own in (("alone", None), ("shared", found)):
                start = time.process_time()
                runs[way] = replace(execute(spec, stages=own).run, seconds=0.0)
                seconds[way] += time.process_time() - start
            assert runs["shared"] == runs["alone"]
            updates, there = updates + runs["alone"].updates, there + (found.updates if found else 0)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
    return {
        "runs": len(specs),
        "alone, s": seconds["alone"],
        "shared, s": seconds["shared"],
        "times as fast": seconds["alone"] / seconds["shared"],
        "share of the cost": seconds["shared"] / seconds["alone"],
        "updates that were there": f"{there / updates:.0%}",
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
    names = [name for name in METHODS.classes if name != "subset-erm"]  # as it stands, that is ERM
    comparison = [Spec.of("colored-digits", name, "default", 0, {"data": draws}) for name in names]
    debiased = [Spec.of("colored-digits", name, "debiased", 0, {"data": draws}) for name in names]
    rows = [
        {"what": "all methods, two-phase"} | measured(comparison),
        {"what": "all methods, debiased"} | measured(debiased),
        {"what": f"REx, {len(weights)} weights"} | measured(trials),
    ]
    show("Shared stages", rows, "Records are equal bit for bit.", options, "stages")


if __name__ == "__main__":
    main()
