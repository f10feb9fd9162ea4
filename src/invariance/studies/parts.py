"""What debiasing and a penalty do, together and alone."""

from collections.abc import Iterator
from typing import ClassVar, final

from invariance.studies.support.accuracy import AccuracyTable
from invariance.studies.support.base import Arm, Results, arm
from invariance.studies.support.paired import Pair

DATA = ("Colored-MNIST", "Colored-FMNIST")
METHODS = ("IRMv1", "REx", "BLOC-IRM")
NEITHER = "neither"


@final
class Parts(AccuracyTable):
    """Debiasing, the penalty, neither and both."""

    title: ClassVar[str] = "Parts: debiasing, a penalty, or both?"
    caption: ClassVar[str] = (
        "Average accuracy and accuracy gap over 19 test environments, in %. Neither: ERM by the debiased recipe, which "
        "it follows without debiasing. Debiasing alone: Env-PoE. The penalty alone: the two-phase recipe. Both: the "
        "debiased recipe."
    )

    reference: ClassVar[str] = "ERM"

    def arms(self, scale: str) -> list[Arm]:
        arms = []
        for data in DATA:
            arms.append(arm(scale, "ERM", data, NEITHER, "debiased"))
            arms.append(arm(scale, "Env-PoE", data, "debiasing", "debiased"))
            arms += [arm(scale, method, data, "penalty", "two-phase") for method in METHODS]
            arms += [arm(scale, method, data, "both", "debiased") for method in METHODS]
        return arms

    def pairs(self, results: Results) -> Iterator[Pair]:
        """Every part beside neither, on the same data."""
        neither = {a.data: a for a in results.arms if a.setting == NEITHER}
        for each in results.arms:
            if each.setting != NEITHER:
                yield Pair(f"{each.method}, {each.setting}", each.data, each, neither[each.data])
