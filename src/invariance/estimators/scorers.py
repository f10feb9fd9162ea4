"""Scorers over environments, for ``GridSearchCV(…, scoring=worst_environment_accuracy)`` and for use by hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metadata_routing import MetadataRequest

from invariance.core.errors import BadValue
from invariance.estimators.inputs import column, dense, environment_codes
from invariance.evaluation.scores import Scores


def accuracies(y: Any, predicted: Any, environments: ArrayLike) -> Scores:
    """The accuracy in each environment, with 95 % intervals."""
    correct = np.asarray(dense(y)) == np.asarray(dense(predicted))
    names, codes = environment_codes(environments, len(correct))
    return Scores.of_counts(*count_correct(correct, codes, names.tolist()))


def count_correct(
    correct: NDArray[np.bool_], codes: NDArray[np.int64], names: Sequence[Any]
) -> tuple[dict[str, int], dict[str, int]]:
    """The numbers of correct predictions and of rows in each environment that has rows, by name."""
    rows = np.bincount(codes, minlength=len(names))
    hits = np.bincount(codes, weights=correct, minlength=len(names))
    present = [(code, str(names[code])) for code in np.flatnonzero(rows).tolist()]
    return {name: int(hits[code]) for code, name in present}, {name: int(rows[code]) for code, name in present}


@dataclass(frozen=True)
class EnvironmentScorer:
    """Scores a fitted classifier, higher is better; requests ``environments`` where metadata is routed."""

    name: str
    measure: Literal["mean", "worst", "gap"]
    sign: float = 1.0

    def __call__(self, estimator: Any, X: Any, y: Any, *, environments: ArrayLike | None = None) -> float:
        if environments is None:
            raise BadValue(f"{self.name} needs environments=, one value per row; use scikit-learn's metadata routing")
        scores = accuracies(column(y, "y", len(y)), estimator.predict(X), environments)
        return self.sign * float(getattr(scores, self.measure))

    def get_metadata_routing(self) -> MetadataRequest:
        """The metadata that scikit-learn should pass on."""
        request = MetadataRequest(owner=self.name)
        request.score.add_request(param="environments", alias=True)
        return request


average_accuracy = EnvironmentScorer("average_accuracy", "mean")
"""Accuracy averaged over environments, which count the same."""

worst_environment_accuracy = EnvironmentScorer("worst_environment_accuracy", "worst")
"""Accuracy in the environment where it is lowest."""

accuracy_gap = EnvironmentScorer("accuracy_gap", "gap", -1.0)
"""Lowest minus highest accuracy: minus the gap, since scikit-learn takes the highest score for the best."""
