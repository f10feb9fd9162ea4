"""What a fitted estimator says of rows: outputs, probabilities or numbers, and how columns contribute to them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from invariance.core.errors import BadValue
from invariance.core.inputs import StoredRows
from invariance.estimators import threads
from invariance.estimators.inputs import dense, table_source
from invariance.estimators.linear import Coefficients, coefficients
from invariance.estimators.network import Features
from invariance.estimators.threads import threads_for
from invariance.evaluation.scores import SLICE_ROWS, outputs
from invariance.models.base import Model
from invariance.tabular.encoder import Encoder
from invariance.tabular.frame import encode_table

CHUNK_ROWS = 65536
"""Rows whose outputs are computed together."""


class Predictor(BaseEstimator, ABC):  # type: ignore[misc]
    """A fitted model of rows; :class:`Invariant` fits it."""

    features: Features | None
    module_: Model
    hidden_: tuple[int, ...]
    input_shape_: tuple[int, ...]
    encoder_: Encoder | None
    table_columns_: tuple[str, ...] | None

    def _repr_html_inner(self) -> str:
        """As scikit-learn shows it, and once it is fitted, what was chosen and its scores by environment."""
        fitted = (getattr(self, name, None) for name in ("choice_", "scores_"))
        return "".join((estimator_html_repr(self), *(each._repr_html_() for each in fitted if each is not None)))

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        shown = {"text/plain": repr(self)}
        return shown | ({"text/html": self._repr_html_inner()} if get_config()["display"] == "diagram" else {})

    def predict_rows(self, x: NDArray[Any] | StoredRows) -> NDArray[Any]:
        """What the model says of rows as :meth:`fit_rows` takes them: probabilities [n, K], or numbers [n, 1]."""
        return self._answers(_finite(self._outputs_of_rows(x)))

    @abstractmethod
    def _answers(self, f: Tensor) -> NDArray[Any]:
        """Probabilities [n, K], or numbers [n, 1], in double precision, of outputs f."""

    def _outputs(self, X: Any) -> Tensor:
        """f of every row, on the CPU, [n, K]."""
        return _finite(self._computed(X))

    def _computed(self, X: Any) -> Tensor:
        check_is_fitted(self)
        if isinstance(X, StoredRows):
            if X.shape[1:] != self.input_shape_:
                raise BadValue(f"X has rows of shape {X.shape[1:]}; the model takes {self.input_shape_}: resize images")
            return outputs(self.module_, X)
        if self.encoder_ is not None:
            return self._outputs_of_rows(self._encoded(X, self.encoder_))
        checks = {"dtype": [np.float64, np.float32], "allow_nd": self.features is not None, "reset": False}
        return self._outputs_of_rows(validate_data(self, dense(X), **checks))

    @property
    def linear_(self) -> Coefficients:
        """The coefficients of a linear model, in units of its inputs; others have none."""
        if self.features is not None or self.hidden_:
            raise AttributeError("a model with hidden layers or features of its own has no coefficients")
        return self._in_units(coefficients(self.module_))

    def _in_units(self, linear: Coefficients) -> Coefficients:
        """Coefficients of what is predicted."""
        return linear

    def contributions(self, X: Any) -> NDArray[np.float64]:
        """What each column adds to the prediction of a linear model, against the mean training row, [n, K, columns].

        For classes these are log-odds, for numbers units of the target. With the intercept at the mean row they add
        up to ``decision_function`` or ``predict``. Columns are those of ``encoder_``, or of X where it is an array.
        """
        check_is_fitted(self)
        linear = self.linear_
        if self.encoder_ is None:
            x = validate_data(self, dense(X), dtype=[np.float64, np.float32], reset=False)
            return linear.contributions(x, [(str(i), slice(i, i + 1)) for i in range(x.shape[1])])
        places = [(column.name, place) for column, place in self.encoder_.places]
        return linear.contributions(self._encoded(X, self.encoder_), places)

    def _encoded(self, X: Any, encoder: Encoder) -> NDArray[Any]:
        """The rows of a table as numbers. A model of a file takes its columns from wherever they are in a frame."""
        if self.table_columns_ is not None:
            validate_data(self, X, reset=False, skip_check_array=True)
        wide = next(self.module_.parameters()).dtype == torch.float64
        return encode_table(table_source(X, self.table_columns_), encoder, np.float64 if wide else np.float32)

    def _outputs_of_rows(self, x: NDArray[Any] | StoredRows) -> Tensor:
        if isinstance(x, StoredRows):
            return outputs(self.module_, x)
        weight = next(self.module_.parameters())
        kind: Any = {"dtype": weight.dtype, "device": weight.device}
        chunks = np.array_split(x, max(1, -(-len(x) // CHUNK_ROWS)))
        with threads_for(self._multiplications(SLICE_ROWS, self.hidden_)):
            return torch.cat(
                [outputs(self.module_, torch.tensor(np.ascontiguousarray(c), **kind)).cpu() for c in chunks]
            )

    def _multiplications(self, rows: int, widths: Sequence[int]) -> int:
        """In the first layer, for some rows; any number may be in a module of the user's or for images."""
        if self.features is not None or len(self.input_shape_) > 1:
            return threads.MIN_MULTIPLICATIONS
        return rows * self.input_shape_[0] * max(widths, default=1)


def _finite(f: Tensor) -> Tensor:
    """Outputs, if all of them are numbers."""
    if not (finite := f.isfinite().all(1)).all():
        row = int(finite.int().argmin())
        raise BadValue(
            f"the model gives {f[row].tolist()} for row {row}; expected finite numbers: is the row within the "
            "range of the training rows, and are the model's weights finite?"
        )
    return f
