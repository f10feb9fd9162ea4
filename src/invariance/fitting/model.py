"""A model of a user's own data: the estimator, the reader of its files, and both on disk."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from invariance.core.errors import DataError
from invariance.estimators.classifier import InvariantClassifier
from invariance.estimators.saved import read, save
from invariance.estimators.scorers import count_correct
from invariance.evaluation.scores import Scores
from invariance.fitting.image_folder import ImageFolderReader
from invariance.fitting.labels import LabelMatcher
from invariance.fitting.reader import Reader

READER = "reader"
"""The key of the reader's kind in a manifest's extra data; revision 1 had none."""


class Predicted(NamedTuple):
    """Probabilities of some samples, [n, classes], and the names of the samples, if they have names."""

    probabilities: NDArray[Any]
    names: Any


class Evaluated(NamedTuple):
    """Accuracy and number of samples in each environment."""

    scores: Scores
    samples: dict[str, int]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted classifier and the reader of its files."""

    reader: Reader
    estimator: InvariantClassifier

    def save(self, folder: Path, *, licence: str, about: Mapping[str, Any]) -> None:
        """Write both; ``about`` is what the model's card says of its data."""
        extra = {READER: self.reader.kind, self.reader.kind: self.reader.to_json()}
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
        """Probabilities of all samples in their order, in batches."""
        for x, names in self.reader.batches(path, notes):
            if len(x):
                yield Predicted(self.estimator.predict_proba(x), names)

    def score(self, path: Path, environment: str | None, notes: list[str]) -> Evaluated:
        """Accuracy in each environment; samples are read in batches and not kept."""
        matcher = LabelMatcher(self.classes)
        correct: Counter[str] = Counter()
        samples: Counter[str] = Counter()
        for rows in self.reader.labelled(path, environment, notes):
            if not len(rows):
                continue
            expected = matcher.codes(rows.y, path)
            predicted = self.estimator.predict_proba(rows.x).argmax(1)
            hits, counts = count_correct(predicted == expected, rows.codes, rows.names.tolist())
            correct.update(hits)
            samples.update(counts)
        if not samples:
            raise DataError(f"{path} has no labelled {self.reader.unit}")
        notes += matcher.notes
        counts = dict(sorted(samples.items()))
        return Evaluated(Scores.of_counts(correct, counts), counts)


def _reader(extra: Mapping[str, Any], folder: Path) -> Reader:
    """The reader of the kind that the manifest names; in revision 1, of the kind whose key is present."""
    kind = extra.get(READER) or next((kind for kind in ("pictures", "table") if kind in extra), None)
    if kind == ImageFolderReader.kind:
        return ImageFolderReader.from_json(extra[kind])
    if kind == "table":
        from invariance.fitting.table import TableReader

        return TableReader.from_json(extra[kind])
    raise DataError(f"the model in {folder} was fitted in Python and reads no files; use it with invariance.load")
