"""The encoding of tables as a transformer of scikit-learn."""

from collections.abc import Sequence
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from invariance.estimators.inputs import EncodedTable, table_source
from invariance.tabular.frame import FrameSource, encode_table
from invariance.tabular.roles import stated_roles


@final
class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Columns of a data frame as numbers, as ``invariance fit`` and the estimators encode them.

    Numbers stay numbers, and missing ones become the mean; categories become one-hot columns; dates become years and
    calendar angles; free text becomes hashed word counts; lists of numbers become columns. Identifiers and constant
    columns are left out. The kind of each column is guessed, unless it is named here. ``encoder_`` holds what was
    learned.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": [41, None, 67], "ward": ["A", "B", "A"]})
        >>> TableEncoder().fit(frame).get_feature_names_out().tolist()
        ['age', 'age is missing', 'ward = A', 'ward = B']

    """

    def __init__(
        self,
        *,
        numeric: Sequence[str] = (),
        categorical: Sequence[str] = (),
        date: Sequence[str] = (),
        text: Sequence[str] = (),
        ignore: Sequence[str] = (),
    ) -> None:
        self.numeric = numeric
        self.categorical = categorical
        self.date = date
        self.text = text
        self.ignore = ignore

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the encoding of a data frame; ``y`` is not used."""
        kinds = {"numeric": self.numeric, "categorical": self.categorical, "date": self.date, "text": self.text}
        stated = stated_roles(FrameSource.of(X), **kinds, ignored=self.ignore)
        table = EncodedTable.learned(X, stated=stated)
        validate_data(self, X, skip_check_array=True)
        self.encoder_, self.table_columns_, self.dtype_ = table.encoder, table.columns, table.x.dtype.type
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """The rows as numbers, [n, inputs]."""
        check_is_fitted(self)
        validate_data(self, X, reset=False, skip_check_array=True)
        return encode_table(table_source(X, self.table_columns_), self.encoder_, self.dtype_)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the inputs."""
        check_is_fitted(self)
        return np.array(self.encoder_.features, dtype=object)
