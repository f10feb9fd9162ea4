"""Published runs: finished runs of studies in one compressed file, which comes with the package.

One line of JSON per run, as ``invariance runs export`` writes it, sorted by key, so that the same runs give the same
bytes. They are read into a store of their own: nothing else needs to know where runs come from.
"""

import json
import lzma
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from invariance.core.atomic import atomic_write
from invariance.core.errors import InvarianceError, StoreError
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store

FILE = Path(__file__).with_suffix(".jsonl.xz")
Record = Mapping[str, Any]


class Published(NamedTuple):
    """How many runs of a store were given to the file, how many of them are new in it, and how many it holds now."""

    given: int
    new: int
    all: int


def publish(store: Store, trials: Collection[str], file: Path = FILE) -> Published:
    """Add the runs of these trials to the file, however they ended; only those that raised an error are left out.

    A run that is in the file stays, unless the store has the same run.
    """
    before = read(file) if file.exists() else {}
    given = {r["key"]: r for r in store.records() if r["trial"] in trials and r["status"] != "failed"}
    after = before | given
    if after != before or not file.exists():
        with atomic_write(file) as part:
            part.write_bytes(_packed(after))
    return Published(len(given), len(given.keys() - before.keys()), len(after))


def read(file: Path = FILE) -> dict[str, Record]:
    """All records by the keys of their runs."""
    try:
        with lzma.open(file, "rt", encoding="utf-8", newline="\n") as lines:
            return {record["key"]: record for record in map(json.loads, lines)}
    except (lzma.LZMAError, EOFError, ValueError, LookupError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise StoreError(f"{file} holds no published runs ({reason}); take it from the repository again") from None


@contextmanager
def published_store(file: Path = FILE) -> Iterator[Store]:
    """A store of the published runs, which is there as long as it is open."""
    with TemporaryDirectory() as folder, Store(Path(folder) / "published runs") as store:
        store.restore(map(_as_here, read(file).values()))
        yield store


def _as_here(record: Record) -> Record:
    """A record under the trial's key of this machine: that follows from the data here, if there are any.

    The run's own key stays. A run of a method or data set that is not installed stays as it is.
    """
    try:
        return {**record, "trial": Spec.from_json(record["spec"]).trial.key}
    except InvarianceError:
        return record


def _packed(records: Mapping[str, Record]) -> bytes:
    lines = (json.dumps(records[key], sort_keys=True, ensure_ascii=False) for key in sorted(records))
    return lzma.compress("".join(f"{line}\n" for line in lines).encode(), preset=9 | lzma.PRESET_EXTREME)
