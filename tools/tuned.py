"""Search for the hyper-parameters of all penalties as the study ``tuned`` reports them, and write the best.

    python tools/tuned.py
    python tools/tuned.py --trials 200 --rules invariant --data Colored-FMNIST --methods SparseIRM Fishr

The learning rate of the first phase, its length and the number of epochs stay as they are, so that trials share the
first phase. Searches are kept in ``tune.db`` and their runs in ``--store``: the same command goes on where it was
stopped.
"""

import argparse
import json
from itertools import product
from pathlib import Path

from invariance.experiments.engines.local import Local
from invariance.experiments.spec import Spec
from invariance.recipes.search import LogRange
from invariance.studies import tuned
from invariance.studies.support.base import NAMES
from invariance.tuning.search import assigned
from invariance.tuning.tune import tune

FILE = Path(tuned.__file__).with_name("support") / "tuned.json"
RECIPE = "two-phase+bf16"
FIXED = ("lr", "epochs", "warmup")
FEWER = {"irm-game": 6}
"""Trials of a method whose runs take ten times as long as those of others."""
RATE = {"recipe.schedule.factor": LogRange(0.02, 2.0)}
"""The rate once the penalty is on, over that before."""


def main() -> None:
    """One search after another; what others found stays."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=14)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rules", nargs="+", default=[source.rule for source in tuned.SOURCES])
    parser.add_argument("--data", nargs="+", default=list(tuned.OTHER))
    parser.add_argument("--methods", nargs="+", default=list(tuned.METHODS))
    parser.add_argument("--workers", type=int)
    parser.add_argument("--store", type=Path, default=Path("runs.db"))
    options = parser.parse_args()
    best = tuned.SEARCHES["best"]
    for rule, data, title in product(options.rules, options.data, options.methods):
        best.setdefault(rule, {}).setdefault(data, {})[title] = search(rule, data, title, options)
        seeds = [100 + number for number in range(options.seeds)]
        FILE.write_text(json.dumps({"seeds": seeds, "recipe": RECIPE, "best": best}, indent=1) + "\n")


def search(rule: str, data: str, title: str, options: argparse.Namespace) -> dict[str, object]:
    """The best trial of one search, and of how many."""
    name = NAMES.get(title, (title.lower(), {}))[0]
    standing = Spec.of(data.lower(), name, RECIPE, 0).recipe
    found = tune(
        data.lower(),
        name,
        RECIPE,
        trials=min(options.trials, FEWER.get(name, options.trials)),
        rule=rule,
        seeds=options.seeds,
        changes={"recipe": {field: getattr(standing, field) for field in FIXED}},
        ranges={} if name == "irm-game" else RATE,
        store=options.store,
        engine=Local(workers=options.workers),
    )
    if not found.best:
        raise SystemExit(f"no trial of {title} on {data} by {rule} has a score")
    settings = assigned(found.best.settings)
    print(f"{title} on {data} by {rule}: {found.best.score:.2f} {' '.join(settings)}", flush=True)
    return {
        "settings": settings,
        "score": found.best.score,
        "trials": len(found.trials),
        "scored": len(found.ranked),
    }


if __name__ == "__main__":
    main()
