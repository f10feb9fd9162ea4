"""Drawn configurations: methods × recipes × families × shapes × extremes. Each ends in a sound model or in one line.

Sound means that every prediction is finite, and that a model which is no better than a constant says so.
"""

import argparse
import json
import random
import sys
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import invariance
from invariance.core.errors import Diverged, InvarianceError
from invariance.estimators.base import COLLAPSED
from invariance.methods import METHODS
from invariance.recipes.presets import PRESETS

NAMES = [name for name, cls in METHODS.classes.items() if not cls.oracle]
RECIPES = [*PRESETS, "small-batch+sam"]
LABELS = ("two classes", "five classes", "numbers")
CONFIGURATIONS, PIECE = 5000, 1000
SCALES = (1.0, 1.0, 1e-20, 1e20, 1e-3, 1e6)


def drawn(number: int) -> tuple[Any, NDArray[Any], NDArray[Any], NDArray[Any]]:
    """An estimator with its rows, targets and environments."""
    rng, noise = random.Random(number), np.random.default_rng(number)
    rows, columns = rng.choice((4, 6, 12, 30, 60)), rng.choice((1, 2, 5))
    labels = rng.choice(LABELS)
    environments = noise.integers(0, rng.choice((1, 2, 3, 6)), rows)
    y = noise.normal(size=rows) if labels == "numbers" else noise.integers(0, 5 if "five" in labels else 2, rows)
    x = noise.normal(size=(rows, columns)) + rng.choice((0, 1, 3)) * np.asarray(y, dtype=float)[:, None]
    x[:, 0] = x[:, 0] * rng.choice(SCALES) + rng.choice((0, 0, 1e4))
    if rng.random() < 0.2:
        x[:, -1] = 3.0
    changes = {
        "epochs": rng.choice((1, 2, 3)),
        "lr": rng.choice((1e-6, 1e-3, 1e-2, 0.1, 1.0, 1e3)),
        "batch_size": rng.choice((None, 1, 4, 1000)),
        "warmup": rng.choice((0.0, 0.5, 1.0)),
    }
    kind = invariance.InvariantRegressor if labels == "numbers" else invariance.InvariantClassifier
    recipe = invariance.recipe(rng.choice(RECIPES), changes=changes)
    hidden = rng.choice(((), (3,), (4, 4)))
    model = kind(rng.choice(NAMES), recipe=recipe, hidden=hidden, random_state=number)
    return model, x.astype(rng.choice((np.float32, np.float64))), y, environments


def outcome(number: int) -> str:
    """How a configuration ended; what begins with "wrong" must not be."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model, x, y, environments = drawn(number)
            model.fit(x, y, environments=environments)
        except Diverged:
            return "diverged"
        except (InvarianceError, ValueError) as error:
            return "refused" if "\n" not in str(error) else f"wrong: {error}"[:200]
        except Exception as error:  # this is the finding
            place = traceback.extract_tb(error.__traceback__)[-1]
            return f"wrong: {number}: {type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {error}"[
                :300
            ]
        try:
            predicted = model.predict_proba(x) if hasattr(model, "predict_proba") else model.predict(x)
        except InvarianceError:
            return "refused to predict"
    if not np.isfinite(predicted).all():
        return f"wrong: {number}: a prediction that is not finite"
    constant = bool(np.ptp(predicted, axis=0).max() == 0)
    told = any(COLLAPSED in str(warning.message) for warning in said)
    if constant and not told:
        return f"wrong: {number}: a constant model that does not say so"
    return "collapsed, and says so" if told else "sound"


def pieces() -> list[str]:
    """What is measured by itself: the first and the last number of each thousand."""
    return [f"{first}-{first + PIECE - 1}" for first in range(0, CONFIGURATIONS, PIECE)]


def configurations(numbers: range) -> dict[str, Any]:
    """Counts of outcomes, and every finding."""
    torch.set_num_threads(1)
    outcomes: Counter[str] = Counter()
    for number in numbers:
        outcomes[outcome(number)] += 1
        if number % 100 == 99:
            print(number + 1, dict(outcomes), file=sys.stderr, flush=True)
    wrong = [name for name in outcomes if name.startswith("wrong")]
    return {"drawn": len(numbers), "outcomes": {k: v for k, v in outcomes.items() if k not in wrong}, "wrong": wrong}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=f"0-{CONFIGURATIONS - 1}", help="the first and the last number")
    first, last = map(int, parser.parse_args().only.split("-"))
    print(json.dumps(configurations(range(first, last + 1))))


if __name__ == "__main__":
    main()
