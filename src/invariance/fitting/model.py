"""A model of somebody's own data: the estimator, what reads its files, and both on disk."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from invariance.core.errors import DataError
from invariance.estimators.classifier import InvariantClassifier
from invariance.estimators.saved import read, save
from invariance.fitting.image_folder import ImageFolderReader
from invariance.fitting.reader import Reader


class Predicted(NamedTuple):
    """Probabilities of some samples, [n, classes], and what these are called, where they have names."""

    probabilities: NDArray[Any]
    names: Any


@dataclass(frozen=True, eq=False)
class Fitted:
    """Reads samples and names their classes."""

    reader: Reader
    estimator: InvariantClassifier

    def save(self, folder: Path, *, licence: str, about: Mapping[str, Any]) -> None:
        """Write both; ``about`` is what the model's card should say of its data."""
        extra = {self.reader.kind: self.reader.to_json()}
        save(self.estimator, folder, licence=licence, about=about, extra=extra)

    @classmethod
    def load(cls, folder: Path) -> "Fitted":
        """What :meth:`save` wrote."""
        estimator, _, extra = read(folder)
        reader = _reader(extra, folder)
        if not isinstance(estimator, InvariantClassifier) or not reader.fits(estimator):
            raise DataError(f"the model in {folder} does not fit the data that it describes; fit it again")
        return cls(reader, estimator)

    @property
    def classes(self) -> list[str]:
        """In the order of their probabilities."""
        return [str(name) for name in self.estimator.classes_]

    def predict(self, path: Path, notes: list[str]) -> Iterator[Predicted]:
        """Probabilities of all samples in their order, some at a time."""
        for x, names in self.reader.pieces(path, notes):
            if len(x):
                yield Predicted(self.estimator.predict_proba(x), names)

    def score(self, path: Path, environment: str | None, notes: list[str]) -> dict[str, tuple[int, int]]:
        """How many samples of each environment were right, of how many, without keeping any."""
        right: Counter[str] = Counter()
        rows: Counter[str] = Counter()
        for x, labels, sites, site in self.reader.labelled(path, environment, notes):
            if not len(x):
                continue
            hits = np.asarray(self.classes, dtype=object)[self.estimator.predict_proba(x).argmax(1)] == labels
            counts = np.bincount(site, minlength=len(sites)), np.bincount(site, weights=hits, minlength=len(sites))
            for name, many, hit in zip(sites, *(count.tolist() for count in counts), strict=True):
                rows[name] += many
                right[name] += int(hit)
        if not rows:
            raise DataError(f"{path} has nothing with a label to compare with")
        return {name: (right[name], rows[name]) for name in sorted(rows)}


def _reader(extra: Mapping[str, Any], folder: Path) -> Reader:
    if ImageFolderReader.kind in extra:
        return ImageFolderReader.from_json(extra[ImageFolderReader.kind])
    if "table" in extra:
        from invariance.fitting.table import TableReader

        return TableReader.from_json(extra["table"])
    raise DataError(f"the model in {folder} was fitted in Python; use it there: invariance.load")
