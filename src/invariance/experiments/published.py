"""Published runs: finished runs of studies in one compressed file, which comes with the package.

One line of JSON per run, as ``invariance runs export`` writes it, with nine digits of every number that was measured,
sorted by key, so that the same runs give the same bytes. They are read into a store of their own: nothing else needs
to know where runs come from.
"""

import json
import lzma
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from invariance.core.atomic import atomic_write
from invariance.core.errors import InvarianceError, StoreError
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store

FILE = Path(__file__).with_suffix(".jsonl.xz")
DIGITS = 9
Record = Mapping[str, Any]


class Published(NamedTuple):
    """How many runs of a store were given to the file, how many of them are new in it, and how many it holds now."""

    given: int
    new: int
    all: int


def publish(store: Store, trials: Collection[str], file: Path = FILE) -> Published:
    """Add the runs of these trials to the file, however they ended; only those that raised an error are left out.

    A run that is in the file stays, unless the store has the same run. Runs that held an environment out belong to no
    study.
    """
    before = read(file) if file.exists() else {}
    results = (r for r in store.records() if r["status"] != "failed" and r["hold_out"] is None)
    given = {
        record["key"]: _rounded(record) | {"spec": record["spec"]} for record in results if record["trial"] in trials
    }
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
        store.restore(_as_here(read(file).values()))
        yield store


def _as_here(records: Iterable[Record]) -> Iterator[Record]:
    """Records under the keys that their trials have on this machine, which depend on the data that are here.

    The runs' own keys stay. A run of a method or data set that is not installed stays as it is.
    """
    trials: dict[str, str] = {}
    for record in records:
        trial = record["trial"]
        if trial not in trials:
            try:
                trials[trial] = Spec.from_json(record["spec"]).trial.key
            except InvarianceError:
                trials[trial] = trial
        yield {**record, "trial": trials[trial]}


def _rounded(value: Any) -> Any:
    """Plain data with as many digits as a 32-bit number has: more of them are noise, and do not compress."""
    match value:
        case float():
            return float(f"{value:.{DIGITS}g}")
        case dict():
            return {name: _rounded(inner) for name, inner in value.items()}
        case list():
            return [_rounded(inner) for inner in value]
        case _:
            return value


def _packed(records: Mapping[str, Record]) -> bytes:
    lines = (json.dumps(records[key], sort_keys=True, ensure_ascii=False) for key in sorted(records))
    return lzma.compress("".join(f"{line}\n" for line in lines).encode())
