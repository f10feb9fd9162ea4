"""``method="auto"`` on tables like people's own, beside its candidates, scikit-learn, and an oracle.

    python benchmarks/own_data.py run results.jsonl --first 0 --draws 10 [NAME ...]
    python benchmarks/own_data.py show results.jsonl

Scores are at a site that was not trained on: accuracy or AUC in %, for numbers 100·R². The oracle is scikit-learn's
linear model (boosted trees where the label is no linear matter), trained without the misleading columns. ``run`` adds
to its file and skips what is there. Tables have at most 20,000 rows, all of which take part in the choice, so that the
model of the method that was chosen is the one that the estimator trains.
"""

import argparse
import json
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from own_tables import TABLES, Array, Table, Tables
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score

from invariance.core.families import Bernoulli, Categorical, Family, Gaussian
from invariance.core.rows import Rows
from invariance.estimators.auto import choose
from invariance.estimators.choice import Choice
from invariance.estimators.defaults import LAYERS
from invariance.estimators.inputs import to_environments
from invariance.estimators.learner import Learner
from invariance.evaluation.metrics import criterion
from invariance.evaluation.scores import outputs
from invariance.methods.base import Method
from invariance.models.base import Model

NEAR, ORACLE_SHARE, MIN_SITES = 3.0, 0.97, 4
"""Points below the best candidate that count as near; share of the oracle to reach, with as many sites."""
MAX_LOSS, MIN_GAIN = 1.0, 10.0
"""Points: what may be lost to ERM where nothing flips; what is to be gained over scikit-learn where a column does."""

KEYS = ("auto", "best", "erm", "linear", "trees", "oracle")
Record = dict[str, Any]


def points(metric: str, f: Array, y: Array) -> float:
    """The score of outputs ``f`` [n, K], in points."""
    if metric == "auc":
        return 100 * float(roc_auc_score(y, f[:, 0]))
    if metric == "r2":
        return 100 * float(r2_score(y, f[:, 0]))
    return 100 * float(np.mean((f[:, 0] > 0 if f.shape[1] == 1 else f.argmax(1)) == y))


def peer_points(tables: Tables, peer: Any, table: Table, columns: Array | slice = slice(None)) -> float:
    """The score of a model of scikit-learn that is trained on some columns."""
    fitted = peer.fit(table.x[:, columns], table.y)
    name = "predict" if tables.regression else "decision_function"
    f = getattr(fitted, name)(table.new_x[:, columns])
    return points(tables.metric, f.reshape(len(f), -1), table.new_y)


def linear(tables: Tables) -> Any:
    """Scikit-learn's linear model."""
    return LinearRegression() if tables.regression else LogisticRegression(max_iter=1000)


def trees(tables: Tables) -> Any:
    """Scikit-learn's boosted trees."""
    return HistGradientBoostingRegressor() if tables.regression else HistGradientBoostingClassifier()


def candidates(tables: Tables, table: Table) -> tuple[Choice, dict[str, float]]:
    """What ``auto`` chooses, and the score of every candidate; of ERM alone where no effect varies."""
    family: Family = (
        Gaussian() if tables.regression else {2: Bernoulli()}.get(tables.classes) or Categorical(tables.classes)
    )
    mean, scale = (float(table.y.mean()), float(table.y.std())) if tables.regression else (0.0, 1.0)
    targets = (table.y - mean) / scale if tables.regression else table.y
    environments = to_environments(Rows.of(table.x, table.y, table.site), targets)
    learner = Learner(family, (), None, "auto", 0, torch.device("cpu"))
    scores: dict[str, float] = {}

    def keep(method: Method, model: Model) -> None:
        f = mean + scale * outputs(model, torch.from_numpy(table.new_x)).double().numpy()
        scores[repr(method)] = points(tables.metric, f, table.new_y)

    chosen_by = criterion("auto", classes=not tables.regression)
    choice = choose(
        *(learner, environments, chosen_by, lambda line: None, LAYERS, table.parts),
        watch=lambda one, model: keep(one.method, model),
    )
    if not scores:
        keep(choice.method, replace(learner, hidden=choice.hidden).fit(choice.method, environments).model)
    return choice, scores


def measure(name: str, draw: int) -> Record:
    """One table: ``auto``, its candidates, scikit-learn and the oracle."""
    tables = TABLES[name]
    table = tables.draw(draw)
    start = time.process_time()
    choice, scores = candidates(tables, table)
    seconds = time.process_time() - start
    return {
        "table": name,
        "draw": draw,
        "method": choice.method_name,
        "hidden": list(choice.hidden),
        "auto": scores[repr(choice.method)],
        "erm": next(iter(scores.values())),
        "best": max(scores.values()),
        "linear": peer_points(tables, linear(tables), table),
        "trees": peer_points(tables, trees(tables), table),
        "oracle": peer_points(tables, (trees if tables.nonlinear else linear)(tables), table, table.oracle),
        "seconds": seconds,
    }


def run(path: Path, names: Sequence[str], draws: range) -> None:
    """Measure what is not in the file yet."""
    done = {(record["table"], record["draw"]) for record in read(path)}
    for draw in draws:
        for name in names:
            if (name, draw) not in done:
                record = measure(name, draw)
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
                print(name, draw, record["method"], round(record["auto"], 1), round(record["oracle"], 1), flush=True)


def read(path: Path) -> list[Record]:
    """Every record of a file, if it is there."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def lines(records: Sequence[Record]) -> Iterator[str]:
    """A table in Markdown, and what it must show."""
    yield "| table | `auto` | best candidate | our ERM | linear | trees | oracle | chosen |"
    yield "|---|--:|--:|--:|--:|--:|--:|---|"
    for name in TABLES:
        if own := [record for record in records if record["table"] == name]:
            cells = [f"{statistics.mean(record[key] for record in own):.1f}" for key in KEYS]
            chosen = Counter(record["method"] for record in own).most_common()
            yield f"| {name} | {' | '.join(cells)} | {', '.join(f'{method} {times}' for method, times in chosen)} |"
    yield ""
    yield from claims(records)


def claims(records: Sequence[Record]) -> Iterator[str]:
    """What the choice is to reach, and in how many draws it does."""
    flips = [record for record in records if TABLES[record["table"]].flips]
    still = [record for record in records if not TABLES[record["table"]].flips]
    open_ = [record for record in flips if record["oracle"] - max(record["linear"], record["trees"]) >= MIN_GAIN]
    many = [record for record in flips if TABLES[record["table"]].count >= MIN_SITES]
    checks = {
        f"within {NEAR:.0f} points of the best candidate": [r["best"] - r["auto"] <= NEAR for r in records],
        f"no more than {MAX_LOSS:.0f} point below ERM where nothing flips": [
            r["erm"] - r["auto"] <= MAX_LOSS for r in still
        ],
        f"{MIN_GAIN:.0f} points above both of scikit-learn's where a column flips": [
            r["auto"] - max(r["linear"], r["trees"]) >= MIN_GAIN for r in flips
        ],
        f"the same, where the oracle is {MIN_GAIN:.0f} points above both": [
            r["auto"] - max(r["linear"], r["trees"]) >= MIN_GAIN for r in open_
        ],
        f"{ORACLE_SHARE} of the oracle with {MIN_SITES} or more sites": [
            r["auto"] >= ORACLE_SHARE * r["oracle"] for r in many
        ],
    }
    for claim, held in checks.items():
        if held:
            yield f"- {claim}: {sum(held)} of {len(held)} draws ({100 * sum(held) / len(held):.0f} %)"
    yield f"- seconds of one core for a choice: {statistics.median(r['seconds'] for r in records):.1f} (median)"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "show"])
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*", help="tables; all of them if none is named")
    parser.add_argument("--first", type=int, default=0, help="the number of the first draw, which is its seed")
    parser.add_argument("--draws", type=int, default=10)
    given = parser.parse_intermixed_args()
    torch.set_num_threads(1)
    if given.command == "run":
        run(given.file, given.names or list(TABLES), range(given.first, given.first + given.draws))
    print("\n".join(lines(read(given.file))))


if __name__ == "__main__":
    main()
