"""Hyper-parameters that were found without the test environments that are reported."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, final

from invariance.core.artefacts import Artefact
from invariance.experiments.spec import parse_changes
from invariance.studies.support.accuracy import AVERAGE_AND_GAP, accuracy_table
from invariance.studies.support.base import BASELINES, Arm, Results, Study, arm
from invariance.studies.support.paired import Pair, paired_table

METHODS = (*BASELINES, "BLOC-IRM")
OTHER = {"Colored-MNIST": "Colored-FMNIST", "Colored-FMNIST": "Colored-MNIST"}
STANDING = "values of Table 4"
SEARCHES: dict[str, Any] = json.loads(Path(__file__).with_name("support").joinpath("tuned.json").read_text("utf-8"))
"""The best trial of every search, which ``tools/tuned.py`` makes."""
TRIALS = [best["trials"] for rule in SEARCHES["best"].values() for data in rule.values() for best in data.values()]


class Source(NamedTuple):
    """Where the values that are reported on a data set come from: a search there or on the other, and its rule."""

    setting: str
    rule: str
    other: bool

    def best(self, data: str, method: str) -> dict[str, Any]:
        """The best trial of the search whose values are reported on these data."""
        best: dict[str, Any] = SEARCHES["best"][self.rule][OTHER[data] if self.other else data][method]
        return best


SOURCES = (
    Source("found on the other data set", "transfer", other=True),
    Source("found on these training environments", "invariant", other=False),
)


@final
class Tuned(Study):
    """Every penalty with values that were searched for without the test environments of its data set."""

    title: ClassVar[str] = "Tuned: hyper-parameters found without the test environments that are reported"
    caption: ClassVar[str] = (
        "Average accuracy and accuracy gap over 19 test environments, in %; small batches by two-phase. The values of "
        "Table 4 were chosen with test environments of both data sets in view. The others were found by searches of "
        f"{min(TRIALS)} to {max(TRIALS)} trials, each with {len(SEARCHES['seeds'])} seeds: on the other data set, by "
        "average less gap over its test environments (rule transfer), or on the same data set, by its training "
        "environments alone (rule invariant). A search varies the weight of the penalty, the rate once it is on, and "
        "the fields of the method (of IRM-Game its own fields alone). Its first trial is the method as it stands; a "
        "blank says that this was the best one. A trial has a score if no seed collapsed and, by the rule invariant, "
        "the environments are alike in the end. The first phase, batches and dropout are those of Table 4 in all. "
        "Searches were made in bf16, the values found are reported in 32 bits."
    )

    def arms(self, scale: str) -> list[Arm]:
        """Where a search found the method as it stands, there is nothing else to run."""
        arms = []
        for data in OTHER:
            standing = [arm(scale, method, data, STANDING, "two-phase") for method in METHODS]
            arms += standing
            for source in SOURCES:
                for old in standing:
                    changes = parse_changes(source.best(data, old.method)["settings"])
                    new = arm(scale, old.method, data, source.setting, "two-phase", changes)
                    arms += [new] if new.identity != old.identity else []
        return arms

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """All side by side with what was found, and what the values change."""
        table = replace(accuracy_table(self, results), notes=tuple(_found(results.arms)))
        what = "values found without these test environments less those of Table 4, seed by seed"
        return table, *paired_table(results, _pairs(results), what, AVERAGE_AND_GAP)


def _pairs(results: Results) -> Iterator[Pair]:
    at = {(a.method, a.data, a.setting): a for a in results.arms}
    for (method, data, setting), own in at.items():
        if setting != STANDING:
            yield Pair(method, f"{data}, {setting}", own, at[method, data, STANDING])


def _found(arms: Sequence[Arm]) -> Iterator[str]:
    """The settings that are not those of the method as it stands."""
    for own, source in product(arms, SOURCES):
        if own.setting == source.setting:
            best = source.best(own.data, own.method)
            fields = ", ".join(setting.partition(".")[2].replace("=", " = ") for setting in best["settings"])
            trials = f"{best['trials']} trials ({best['scored']} with a score)"
            yield f"{own.method} on {own.data}, {own.setting} in {trials}: {fields}"
