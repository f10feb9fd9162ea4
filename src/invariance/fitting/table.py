"""Tables: rows as numbers, by the encoder that was learned from the training table."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

from invariance.core.errors import DataError
from invariance.core.rows import Rows
from invariance.estimators.classifier import InvariantClassifier
from invariance.fitting.reader import IMAGES, Given, Piece, Reader
from invariance.tabular.encoder import Encoder
from invariance.tabular.frame import Pieces, read, understand
from invariance.tabular.roles import Kind
from invariance.tabular.source import TableSource, short

SINGLE_ENVIRONMENT = "no column says where rows are from, so the model is ERM; name one with --environment"


@final
@dataclass(frozen=True)
class TableReader(Reader):
    """Rows of a table as numbers."""

    encoder: Encoder

    kind: ClassVar[str] = "table"
    unit: ClassVar[str] = "rows"

    @classmethod
    def from_json(cls, plain: object) -> "TableReader":
        """What :meth:`to_json` gave."""
        return cls(Encoder.from_json(plain))

    def to_json(self) -> dict[str, Any]:
        return self.encoder.to_json()

    def fits(self, estimator: InvariantClassifier) -> bool:
        return estimator.input_shape_ == (len(self.encoder.features),)

    def pieces(self, path: Path, notes: list[str]) -> Iterator[Piece]:
        unusable: Counter[str] = Counter()
        for batch in opened(path).batches([column.name for column in self.encoder.columns]):
            yield Piece(self.encoder.encode(batch, unusable))
        notes += self.encoder.notes(unusable)

    def labelled(self, path: Path, environment: str | None, notes: list[str]) -> Iterator[Rows]:
        pieces = Pieces(opened(path), self.encoder, environment)
        yield from pieces
        notes += pieces.notes


def opened(path: Path) -> TableSource:
    """The table in a file; a folder or an image is refused."""
    if path.is_dir() or path.suffix.lower() in IMAGES:
        raise DataError(
            f"{path} is not a table, and the model was fitted to one: give a file that ends in .csv, .tsv or .parquet, "
            "or a model that was fitted to a folder of images"
        )
    return TableSource.open(path)


def given_table(
    source: TableSource,
    label: str | None,
    environment: str | None,
    wishes: Mapping[str, Kind],
    *,
    test: Path | None,
    seed: int,
) -> Given:
    """A training table and perhaps a test table, read before anything is trained, so that a mistake shows at once."""
    path, known = source.path, understand(source, label, environment, wishes)
    reader = TableReader(known.encoder)
    rows = read(source, known.encoder)
    named = {"table": path.name, "label": known.encoder.label, "environment": known.encoder.environment}
    return Given(
        path,
        reader,
        rows,
        read(opened(test), known.encoder) if test else None,
        InvariantClassifier(random_state=seed),
        known.encoder.label,
        known.encoder.environment,
        {name: short(value) for name, value in named.items() if value},
        rows.notes if known.encoder.environment else (*rows.notes, SINGLE_ENVIRONMENT),
        tuple((column.name, place) for column, place in known.encoder.places),
        tuple((role.name, role.kind, role.why) for role in known.roles),
    )
