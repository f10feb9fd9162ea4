"""Regression."""

from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from torch import Tensor

from invariance.core.families import Family, Gaussian
from invariance.core.rows import Rows
from invariance.estimators.base import Invariant
from invariance.estimators.linear import Coefficients


@final
class InvariantRegressor(RegressorMixin, Invariant):  # type: ignore[misc]
    """A regressor that does not rely on what changes between environments.

    Targets are standardised inside; ``predict`` returns their units. The parameters are those of :class:`Invariant`.
    """

    def _targets(self, rows: Rows) -> tuple[Family, NDArray[Any]]:
        y, weight = rows.y.astype(np.float64), rows.weight
        self.target_mean_ = float(np.average(y, weights=weight))
        deviation = float(np.sqrt(np.average((y - self.target_mean_) ** 2, weights=weight)))
        self.target_scale_ = deviation or 1.0
        return Gaussian(), (y - self.target_mean_) / self.target_scale_

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Of a linear model, by input, [inputs]."""
        return self.linear_.weight[0]

    @property
    def intercept_(self) -> float:
        """Of a linear model."""
        return float(self.linear_.intercept[0])

    def _in_units(self, linear: Coefficients) -> Coefficients:
        return linear.scaled(self.target_scale_, self.target_mean_)

    def predict(self, X: Any) -> NDArray[Any]:
        """The expected target of each row, [n]."""
        return self._answers(self._outputs(X))[:, 0]

    def _answers(self, f: Tensor) -> NDArray[Any]:
        standardised: NDArray[Any] = f.double().numpy()
        return self.target_mean_ + self.target_scale_ * standardised
