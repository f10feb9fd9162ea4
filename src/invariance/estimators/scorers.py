"""Scorers over environments, and the rule that a search with one environment per fold needs."""

import re
from collections.abc import Mapping, Sequence
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
    correct: NDArray[np.bool_], codes: NDArray[np.integer[Any]], names: Sequence[Any]
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


def worst_environment(cv_results: Mapping[str, Any]) -> int:
    """The candidate whose lowest score over the folds is highest, for ``GridSearchCV(…, refit=worst_environment)``.

    With one environment per fold, a search takes the highest *average* over environments, whatever the scorer. A
    column that misleads in the next environment helps in most of the known ones, so the average prefers a model that
    relies on it; the lowest score does not. ``best_score_`` is then not defined; ``cv_results_`` has all scores.
    """
    folds = [cv_results[f"split{fold}_test_score"] for fold in range(_folds(cv_results))]
    return int(np.argmax(np.min(folds, axis=0)))


def _folds(cv_results: Mapping[str, Any]) -> int:
    folds = sum(re.fullmatch(r"split\d+_test_score", name) is not None for name in cv_results)
    if not folds:
        raise BadValue("worst_environment needs one scorer; give scoring= one of them, not several")
    return folds


average_accuracy = EnvironmentScorer("average_accuracy", "mean")
"""Accuracy averaged over environments, which count the same."""

worst_environment_accuracy = EnvironmentScorer("worst_environment_accuracy", "worst")
"""Accuracy in the environment where it is lowest."""

accuracy_gap = EnvironmentScorer("accuracy_gap", "gap", -1.0)
"""Lowest minus highest accuracy: minus the gap, since scikit-learn takes the highest score for the best."""
