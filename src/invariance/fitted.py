"""A model of somebody's table: the estimator, what turns rows into its numbers, and both on disk."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from invariance.errors import DataError
from invariance.estimators.classifier import InvariantClassifier
from invariance.estimators.saved import read, save
from invariance.tables.encoder import Encoder
from invariance.tables.frame import Pieces
from invariance.tables.source import Source

TABLE = "table"
"""Under this name the encoder lies beside the estimator."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """Reads rows of a table and names their classes."""

    encoder: Encoder
    estimator: InvariantClassifier

    def save(self, folder: Path, *, licence: str, about: Mapping[str, Any]) -> None:
        """Write both; ``about`` is what the model's card should say of its data."""
        save(self.estimator, folder, licence=licence, about=about, extra={TABLE: self.encoder.to_json()})

    @classmethod
    def load(cls, folder: Path) -> "Fitted":
        """What :meth:`save` wrote."""
        estimator, _, extra = read(folder)
        if TABLE not in extra:
            raise DataError(f"the model in {folder} was not fitted to a table; use it in Python: invariance.load")
        encoder = Encoder.from_json(extra[TABLE])
        if not isinstance(estimator, InvariantClassifier) or estimator.n_features_in_ != len(encoder.features):
            raise DataError(f"the model in {folder} does not fit the table that it describes; fit it again")
        return cls(encoder, estimator)

    @property
    def classes(self) -> list[str]:
        """In the order of their probabilities."""
        return [str(name) for name in self.estimator.classes_]

    def predict(self, source: Source, strange: Counter[str]) -> Iterator[NDArray[Any]]:
        """Probabilities of all rows in their order, some at a time, [n, classes]."""
        for batch in source.batches([column.name for column in self.encoder.columns]):
            x = self.encoder.encode(batch, strange)
            if len(x):
                yield self.estimator.predict_proba(x)

    def score(self, pieces: Pieces) -> dict[str, tuple[int, int]]:
        """How many rows of each environment were right, of how many, without keeping any."""
        right: Counter[str] = Counter()
        rows: Counter[str] = Counter()
        for x, labels, sites in pieces:
            if not len(x):
                continue
            named = np.asarray(self.classes, dtype=object)[self.estimator.predict_proba(x).argmax(1)]
            encoded = sites.dictionary_encode()
            places, hits = encoded.indices.to_numpy(), named == labels.to_numpy(zero_copy_only=False)
            for name, many, hit in zip(
                encoded.dictionary.to_pylist(),
                np.bincount(places).tolist(),
                np.bincount(places, weights=hits).tolist(),
                strict=True,
            ):
                rows[name] += many
                right[name] += int(hit)
        if not rows:
            raise DataError(f"{pieces.source.path} has no row with a value of {pieces.label!r} to compare with")
        return {name: (right[name], rows[name]) for name in sorted(rows)}
