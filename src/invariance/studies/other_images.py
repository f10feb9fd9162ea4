"""Whether the small-batch numbers hold on images that no test had used when recipes were chosen."""

from collections.abc import Iterator
from typing import ClassVar, final

from invariance.core.artefacts import Artefact
from invariance.studies.support.accuracy import AVERAGE_AND_GAP, accuracy_table
from invariance.studies.support.base import BASELINES, OWN, Arm, Results, Study, arm
from invariance.studies.support.paired import Pair, paired_table

DATA = ("Colored-MNIST", "Colored-FMNIST")
KNOWN, OTHER = "images of Table 4", "other images"


@final
class OtherImages(Study):
    """The models of Table 4, in small batches, tested on the images that validated them, and the other way round."""

    title: ClassVar[str] = "Other images: the same models, tested on the usual validation images"
    caption: ClassVar[str] = (
        "Average accuracy and accuracy gap over 19 test environments, in %; small batches. Values of the recipes were "
        "chosen with the 10,000 images of the test file in view, by other seeds. Here the same runs are tested on the "
        "10,000 images of the training file that are not trained on, and those of the test file take their place in "
        "the selection of a checkpoint. No test had used these images; two values were found by accuracy on those of "
        "Colored-MNIST (γ of IRMv1 and of SparseIRM)."
    )

    def arms(self, scale: str) -> list[Arm]:
        return [
            arm(scale, method, data, setting, "small-batch", {"data": changes})
            for data in DATA
            for setting, changes in ((KNOWN, {}), (OTHER, {"test_pool": "train-file"}))
            for method in (*BASELINES, "BLOC-IRM", OWN)
        ]

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """Both side by side, and what the other images change."""
        what = "other images less those of Table 4, seed by seed"
        return accuracy_table(self, results), *paired_table(results, _pairs(results), what, AVERAGE_AND_GAP)


def _pairs(results: Results) -> Iterator[Pair]:
    at = {(a.method, a.data, a.setting): a for a in results.arms}
    for (method, data, setting), own in at.items():
        if setting == OTHER:
            yield Pair(method, data, own, at[method, data, KNOWN])
