"""Classification."""

from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from invariance.core.errors import BadValue
from invariance.core.families import Bernoulli, Categorical, Family
from invariance.core.rows import Rows
from invariance.estimators.base import Invariant


@final
class InvariantClassifier(ClassifierMixin, Invariant):  # type: ignore[misc]
    """A classifier that does not rely on what changes between environments.

    ``classes_`` are the different labels, sorted, and ``positive_`` is the positive one of two. The parameters are
    those of :class:`Invariant`.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> InvariantClassifier("rex").fit(X, y, environments=[i % 3 for i in range(150)]).predict(X[:1])
        array([0])

    """

    def _targets(self, rows: Rows) -> tuple[Family, NDArray[Any]]:
        if rows.classes is None:
            check_classification_targets(rows.y)
            self.classes_, codes = np.unique(rows.y, return_inverse=True)
        else:
            self.classes_, codes = rows.classes, rows.y
        if len(self.classes_) < 2:
            raise BadValue(f"y holds one class, {self.classes_.tolist()[0]!r}; a classifier needs at least two classes")
        return self._family, codes

    @property
    def positive_(self) -> Any:
        """The positive class of two; None with more."""
        return self.classes_[self._positive_code()] if len(self.classes_) == 2 else None

    @property
    def _family(self) -> Family:
        return Bernoulli() if len(self.classes_) == 2 else Categorical(len(self.classes_))

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Of a linear model, by input: of the log-odds of the second class, [1, inputs], or of each logit."""
        return self.linear_.weight

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Of a linear model, [1], or one per class."""
        return self.linear_.intercept

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Log-odds of the second class, [n]; with more classes a logit for each, [n, K]."""
        f: NDArray[Any] = self._outputs(X).numpy()
        return f[:, 0] if f.shape[1] == 1 else f

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The probability of each class, in the order of ``classes_``, in double precision, [n, K]."""
        return self._answers(self._outputs(X))

    def _answers(self, f: Tensor) -> NDArray[Any]:
        f = f.double()
        f = torch.cat([torch.zeros_like(f), f], dim=1) if f.shape[1] == 1 else f
        return torch.softmax(f, 1).numpy()

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row, [n]."""
        f = self._outputs(X)
        return self.classes_[self._family.predict(f).long().numpy()]
