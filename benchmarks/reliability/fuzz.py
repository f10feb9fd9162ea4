"""Damaged input of every format: one line that says why, or a right answer, within a minute and two gigabytes.

Each format is read in a process of its own, with its memory bounded; one that ends is a finding, and another goes on.
"""

import argparse
import json
import os
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

from reliability.formats import FORMATS, Examples, Format, InvarianceError, formats

MAX_BYTES, MAX_SECONDS = 2 << 30, 60
MAX_MESSAGE = 1500


class Outcome(NamedTuple):
    """What became of one mutation."""

    number: int
    refused: bool
    seconds: float
    megabytes: float
    wrong: str


def outcome(kind: Format, number: int, folder: Path, seed: int) -> Outcome:
    """Read one damaged input."""
    rng = random.Random(f"{seed} {kind.name} {number}")
    refused, wrong, start = False, "", time.perf_counter()
    try:
        refused = bool(kind.case(folder, rng))
    except InvarianceError as error:
        refused = True
        if not str(error).isprintable() or len(str(error)) > MAX_MESSAGE:
            wrong = f"not one short line: {str(error)[:200]!r}"
    except Exception as error:  # this is the finding
        place = traceback.extract_tb(error.__traceback__)[-1]
        wrong = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {error}"[:300]
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Outcome(number, refused, time.perf_counter() - start, used, wrong)


def child(kind: Format, numbers: range, folder: Path, seed: int, writing: int) -> None:
    """Read one input after another, and write what became of each; never returns."""
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES))
        with os.fdopen(writing, "w") as results:
            for number in numbers:
                signal.alarm(MAX_SECONDS)  # which ends this process
                results.write(json.dumps(outcome(kind, number, folder, seed)) + "\n")
                results.flush()
    finally:
        os._exit(0)


def outcomes(kind: Format, mutations: int, folder: Path, seed: int) -> list[Outcome]:
    """Read so many damaged inputs of a format."""
    found: list[Outcome] = []
    while len(found) < mutations:
        reading, writing = os.pipe()
        if not (process := os.fork()):
            os.close(reading)
            child(kind, range(len(found), mutations), folder, seed, writing)
        os.close(writing)
        with os.fdopen(reading) as lines:
            found += [Outcome(*json.loads(line)) for line in lines]
        _, status = os.waitpid(process, 0)
        if len(found) < mutations:
            code = os.waitstatus_to_exitcode(status)
            found.append(Outcome(len(found), False, 0.0, 0.0, f"the process ended with code {code}"))
    return found


def pieces() -> list[str]:
    """What is measured by itself."""
    return list(FORMATS)


def fuzz(mutations: int, names: list[str], seed: int = 0) -> list[dict[str, Any]]:
    """All formats, or the named ones."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        (examples := Path(folder) / "examples").mkdir()
        for kind in formats(Examples(examples)):
            if not names or kind.name in names:
                (place := Path(folder) / kind.name.replace(" ", "-")).mkdir()
                found.append(summary(kind.name, outcomes(kind, mutations, place, seed)))
                print(found[-1], file=sys.stderr, flush=True)
    return found


def summary(name: str, found: list[Outcome]) -> dict[str, Any]:
    """A line of the table."""
    return {
        "format": name,
        "mutations": len(found),
        "refused": sum(each.refused for each in found),
        "slowest": max(each.seconds for each in found),
        "megabytes": max(each.megabytes for each in found),
        "wrong": [f"{each.number}: {each.wrong}" for each in found if each.wrong],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutations", type=int, default=1540, help="of each format")
    parser.add_argument("--only", action="append", default=[], help="a format; repeat")
    options = parser.parse_args()
    print(json.dumps(fuzz(options.mutations, options.only)))


if __name__ == "__main__":
    main()
