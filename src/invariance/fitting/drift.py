"""Whether a site is unlike the training sites, by its inputs alone: no label is needed."""

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from invariance.core.errors import BadValue
from invariance.core.fields import STRICT
from invariance.core.rows import Rows
from invariance.tabular.source import short

MAX_SITES, MAX_ROWS = 200, 100_000
"""Training sites and rows that the reference is learned from: the largest sites, and evenly spaced rows."""
MIN_ROWS = 30
"""With fewer rows, nothing is said about a site."""
MIN_RATIO, MIN_DISTANCE = 1.5, 0.1
"""A site is unlike the training sites if it is so much farther than the farthest of them, and so far at all."""
NAMED_COLUMNS = 3

Finite = Annotated[float, Field(allow_inf_nan=False)]
Columns = Sequence[tuple[str, slice]]


class Drift(NamedTuple):
    """How far the mean of a site's rows lies from the training sites, in standard deviations of a row.

    ``distance`` is the root mean square over columns, less what chance explains; ``farthest`` is that of the training
    site that is farthest from the others; ``columns`` are those that differ most.
    """

    distance: float
    farthest: float
    columns: tuple[str, ...]

    @property
    def unlike(self) -> bool:
        """Whether the site is clearly farther than any training site."""
        return self.distance > max(MIN_DISTANCE, MIN_RATIO * self.farthest)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**self._asdict(), "unlike": self.unlike}

    def __str__(self) -> str:
        """One sentence without its full stop."""
        named = ", ".join(short(name, quoted=False) for name in self.columns)
        return (
            f"unlike the training sites: its inputs are {self.distance:.2f} standard deviations from theirs, and those "
            f"of the farthest training site {self.farthest:.2f}; most in {named}"
        )


@dataclass(frozen=True, config=STRICT)
class DriftReference:
    """The inputs of the training sites: their mean and the deviation of a row [inputs], and each site's distance."""

    mean: tuple[Finite, ...]
    scale: tuple[Finite, ...]
    distances: tuple[Finite, ...]

    @classmethod
    def of(cls, rows: Rows, columns: Columns) -> "DriftReference | None":
        """From training rows; None where they are no table, or of one site."""
        if not columns or not isinstance(rows.x, np.ndarray) or len(rows.names) < 2:
            return None
        step = -(-len(rows) // MAX_ROWS)
        x, codes = np.asarray(rows.x[::step], np.float64), rows.codes[::step]
        sizes = np.bincount(codes, minlength=len(rows.names))
        sites = [e for e in np.argsort(-sizes, kind="stable")[:MAX_SITES] if sizes[e]]
        means = np.array([x[codes == e].mean(0) for e in sites])
        scale = np.where((deviation := x.std(0)) > 0, deviation, 1.0)
        rest = (means.sum(0) - means) / max(1, len(means) - 1)
        distances = [
            float(np.sqrt(_squares(mean, other, scale, int(sizes[e]), columns).mean()))
            for mean, other, e in zip(means, rest, sites, strict=True)
        ]
        return cls(tuple(means.mean(0).tolist()), tuple(scale.tolist()), tuple(distances))

    def drift(self, total: NDArray[np.float64], rows: int, columns: Columns) -> Drift | None:
        """Of a site whose inputs sum up to ``total`` [inputs]; None where its rows are too few."""
        if rows < MIN_ROWS:
            return None
        squares = _squares(total / rows, np.array(self.mean), np.array(self.scale), rows, columns)
        most = np.argsort(-squares, kind="stable")[:NAMED_COLUMNS]
        named = tuple(columns[i][0] for i in most if squares[i] > 0)
        return Drift(float(np.sqrt(squares.mean())), max(self.distances), named)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        plain: dict[str, Any] = TypeAdapter(DriftReference).dump_python(self, mode="json")
        return plain

    @classmethod
    def from_json(cls, plain: object) -> "DriftReference":
        """What :meth:`to_json` gave."""
        try:
            return TypeAdapter(cls).validate_python(plain)
        except ValidationError as error:
            raise BadValue.of(error, "a reference for drift") from None


def _squares(
    mean: NDArray[Any], other: NDArray[Any], scale: NDArray[Any], rows: int, columns: Columns
) -> NDArray[np.float64]:
    """Squared distance of each column, the mean over its inputs, without what the number of rows explains."""
    each = np.square((mean - other) / scale) - 1 / rows
    return np.maximum([float(each[place].mean()) for _, place in columns], 0.0)
