"""Damaged input of every format: one line that says why, or a right answer, within a minute and two gigabytes."""

import argparse
import json
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch

from reliability.formats import Examples, Format, InvarianceError, formats

MAX_BYTES, MAX_SECONDS = 2 << 30, 60
MAX_MESSAGE = 1500


class Fuzzed(NamedTuple):
    """What became of the mutations of one format."""

    format: str
    mutations: int
    refused: int
    slowest: float
    megabytes: float
    wrong: list[str]


def fuzzed(kind: Format, mutations: int, folder: Path, seed: int) -> Fuzzed:
    """Read so many damaged inputs of a format."""
    refused, slowest, wrong = 0, 0.0, []
    for number in range(mutations):
        rng = random.Random(f"{seed} {kind.name} {number}")
        start = time.perf_counter()
        signal.alarm(MAX_SECONDS)
        try:
            kind.case(folder, rng)
        except InvarianceError as error:
            refused += 1
            if not str(error).isprintable() or len(str(error)) > MAX_MESSAGE:
                wrong.append(f"{number}: not one short line: {str(error)[:200]!r}")
        except Exception as error:  # this is the finding
            place = traceback.extract_tb(error.__traceback__)[-1]
            wrong.append(
                f"{number}: {type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {error}"[:300]
            )
        signal.alarm(0)
        slowest = max(slowest, time.perf_counter() - start)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Fuzzed(kind.name, mutations, refused, slowest, used, wrong)


def fuzz(mutations: int, names: list[str], seed: int = 0) -> list[dict[str, Any]]:
    """All formats, or the named ones; memory is bounded, so that what takes more is an error."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        (examples := Path(folder) / "examples").mkdir()
        made = Examples(examples)
        for kind in formats(made):
            if not names or kind.name in names:
                (place := Path(folder) / kind.name.replace(" ", "-")).mkdir()
                found.append(fuzzed(kind, mutations, place, seed)._asdict())
                print(found[-1], file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=1540, help="of each format")
    parser.add_argument("--only", action="append", default=[], help="a format; repeat")
    options = parser.parse_args()
    print(json.dumps(fuzz(options.mutations, options.only)))


if __name__ == "__main__":
    main()
