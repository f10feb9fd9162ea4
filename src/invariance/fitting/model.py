"""A model of a user's own data: the estimator, the reader of its files, and both on disk."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from invariance.core.errors import BadValue, DataError
from invariance.core.inputs import StoredRows
from invariance.core.rows import Rows
from invariance.estimators.base import Invariant
from invariance.estimators.classifier import InvariantClassifier
from invariance.estimators.saved import read, save
from invariance.estimators.scorers import count_correct
from invariance.evaluation.scores import Scores
from invariance.fitting.drift import Columns, Drift, DriftReference
from invariance.fitting.image_folder import ImageFolderReader, saved_estimator
from invariance.fitting.labels import LabelMatcher
from invariance.fitting.numbers import NumberScore, NumberSums
from invariance.fitting.reader import FitTask, Reader
from invariance.fitting.table import TableReader

READER, DRIFT = "reader", "drift"
"""Keys of a manifest's extra data: the reader's kind, which revision 1 had not, and the inputs of training sites."""


class Predicted(NamedTuple):
    """Probabilities of some samples, [n, classes], or numbers, [n, 1], and what goes beside them.

    These are columns that are copied, and what each column contributes, [n, contributions], if that was asked for.
    """

    answers: NDArray[np.float64]
    kept: Mapping[str, pa.Array]
    contributions: NDArray[np.float64] | None = None


class Evaluated(NamedTuple):
    """The number of samples in each environment, how unlike the training sites it is, and what was measured.

    ``scores`` are accuracies, ``numbers`` the errors of a regression; a model has one of them.
    """

    samples: dict[str, int]
    drift: dict[str, Drift]
    scores: Scores | None = None
    numbers: dict[str, NumberScore] | None = None


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted estimator, the reader of its files, and the inputs of its training sites, if they are a table's."""

    reader: Reader
    estimator: Invariant
    reference: DriftReference | None = None

    @classmethod
    def of(cls, task: FitTask, estimator: Invariant, rows: Rows) -> "Fitted":
        """The model of a task, after its estimator was fitted; drift is measured from ``rows`` of its training data."""
        reader = task.reader.leaving_out(estimator.left_out_)
        return cls(reader, saved_estimator(task, estimator), DriftReference.of(rows, reader.columns))

    def save(
        self, folder: Path, *, licence: str, about: Mapping[str, Any], assessment: Mapping[str, Any] | None = None
    ) -> None:
        """Write all; ``about`` is what the model's card says of its data, ``assessment`` what it says of new sites."""
        extra = {READER: self.reader.kind, self.reader.kind: self.reader.to_json()}
        extra |= {DRIFT: self.reference.to_json()} if self.reference else {}
        save(self.estimator, folder, licence=licence, about=about, extra=extra, assessment=assessment)

    @classmethod
    def load(cls, folder: Path) -> "Fitted":
        """What :meth:`save` wrote, or ``invariance.save`` of an estimator that was fitted to a data frame."""
        estimator, _, extra = read(folder)
        reader = _reader(extra, folder)
        if not reader.fits(estimator):
            raise DataError(f"the model in {folder} does not fit the data that it describes; fit it again")
        return cls(reader, estimator, DriftReference.from_json(extra[DRIFT]) if DRIFT in extra else None)

    @property
    def classes(self) -> list[str]:
        """In the order of their probabilities; none for a regression."""
        return [str(name) for name in getattr(self.estimator, "classes_", ())]

    def explained(self) -> tuple[str, ...]:
        """The names of the contributions of a linear model of a table: by column, and by class if there are many."""
        if not self.reader.columns or not hasattr(self.estimator, "coef_"):
            raise BadValue("contributions are those of the columns of a linear model; leave out --contributions")
        classes = [f"_{name}" for name in self.classes] if len(self.classes) > 2 else [""]
        return tuple(f"contribution_{column}{name}" for name in classes for column, _ in self.reader.columns)

    def predict(
        self, path: Path, notes: list[str], kept: Sequence[str] = (), *, explain: bool = False
    ) -> Iterator[Predicted]:
        """The answers for all samples in their order, in batches; a note says so if they are unlike training data."""
        sums = _InputSums(self.reader.columns)
        linear = self.estimator.linear_ if explain else None
        for x, columns in self.reader.batches(path, notes, kept):
            if len(x):
                sums.add(path.name, x)
                parts = None
                if linear and isinstance(x, np.ndarray):
                    parts = linear.contributions(x, self.reader.columns).reshape(len(x), -1)
                yield Predicted(self.estimator.predict_rows(x), columns, parts)
        notes += [f"{name} is {drift}" for name, drift in sums.drifts(self.reference).items() if drift.unlike]

    def score(self, path: Path, environment: str | None, notes: list[str]) -> Evaluated:
        """Errors in each environment; samples are read in batches and not kept."""
        classes = isinstance(self.estimator, InvariantClassifier)
        measure = _Accuracy(self.classes, path) if classes else NumberSums()
        sums = _InputSums(self.reader.columns)
        for rows in self.reader.labelled(path, environment, notes):
            if len(rows):
                measure.add(self.estimator.predict_rows(rows.x), rows)
                for code, name in enumerate(rows.names.tolist()):
                    sums.add(name, rows.x[rows.codes == code])
        if not measure.samples:
            raise DataError(f"{path} has no labelled {self.reader.unit}")
        samples, drift = dict(sorted(measure.samples.items())), sums.drifts(self.reference)
        if isinstance(measure, NumberSums):
            return Evaluated(samples, drift, numbers=measure.scores())
        notes += measure.matcher.notes
        return Evaluated(samples, drift, scores=Scores.of_counts(measure.correct, samples))


class _Accuracy:
    """Correct predictions and samples in each environment, counted batch by batch."""

    def __init__(self, classes: Sequence[str], path: Path) -> None:
        self.matcher, self.path = LabelMatcher(classes), path
        self.correct: Counter[str] = Counter()
        self.samples: Counter[str] = Counter()

    def add(self, answers: NDArray[np.float64], rows: Rows) -> None:
        """Count some more rows."""
        expected = self.matcher.codes(rows.y, self.path)
        hits, counts = count_correct(answers.argmax(1) == expected, rows.codes, rows.names.tolist())
        self.correct.update(hits)
        self.samples.update(counts)


class _InputSums:
    """Sums of the inputs of each site, for its drift; images have no columns and no sums."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.totals: dict[str, NDArray[np.float64]] = {}
        self.rows: Counter[str] = Counter()

    def add(self, name: str, x: NDArray[Any] | StoredRows) -> None:
        """Add some more rows of a site."""
        if isinstance(x, np.ndarray) and len(x):
            self.totals[name] = self.totals.get(name, 0.0) + x.sum(0, dtype=np.float64)
            self.rows[name] += len(x)

    def drifts(self, reference: DriftReference | None) -> dict[str, Drift]:
        """The drift of every site with rows enough."""
        if reference is None:
            return {}
        each = {name: reference.drift(self.totals[name], self.rows[name], self.columns) for name in self.totals}
        return {name: drift for name, drift in each.items() if drift is not None}


def _reader(extra: Mapping[str, Any], folder: Path) -> Reader:
    """The reader of the kind that the manifest names; in revision 1, of the kind whose key is present."""
    kind = extra.get(READER) or next((kind for kind in ("pictures", "table") if kind in extra), None)
    if kind == ImageFolderReader.kind:
        return ImageFolderReader.from_json(extra[kind])
    if kind == TableReader.kind:
        return TableReader.from_json(extra[kind])
    raise DataError(f"the model in {folder} was fitted to arrays and reads no files; use it with invariance.load")
