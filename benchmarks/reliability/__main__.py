"""Measure everything and write docs/reliability.md, piece by piece: a scenario, a format, a thousand configurations.

Each piece is measured in a process of its own and kept beside this file at once, with date, commit and load.
A pass that was interrupted goes on where it was: what was measured on this source is not measured again, unless it is
named, as in ``python -m reliability crashes fuzz:CSV``.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from reliability.page import page

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
PAGE = HERE.parents[1] / "docs" / "reliability.md"
PARTS = ("crashes", "fuzz", "memory", "configurations", "properties", "determinism", "soak")
Results = dict[str, dict[str, dict[str, Any]]]
"""By part and piece: what was found, and when, where and on what it was measured."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"PART or PART:PIECE, to measure it again; parts: {', '.join(PARTS)}")
    parser.add_argument("--page", action="store_true", help="write the page from what was measured before")
    options = parser.parse_args()
    for part, piece in () if options.page else wanted(options.names, measured()):
        command = [sys.executable, "-m", f"reliability.{part}", f"--only={piece}"]
        done = subprocess.run(command, cwd=HERE.parent, stdout=subprocess.PIPE, check=True, text=True)
        results = measured()  # another process may have measured another piece
        own = results.get(part, {}) | {piece: {"found": json.loads(done.stdout)} | circumstances()}
        results[part] = {name: own[name] for name in pieces(part) if name in own}
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(measured()), encoding="utf-8")


def measured() -> Results:
    """What was measured so far."""
    found: Results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return found


def wanted(names: Sequence[str], results: Results) -> Iterator[tuple[str, str]]:
    """The pieces that are named, or those that were not measured on this source yet."""
    now = source()
    for part in PARTS:
        for piece in pieces(part):
            before = results.get(part, {}).get(piece, {}).get("source")
            if {part, f"{part}:{piece}"} & set(names) or (not names and before != now):
                yield part, piece


def pieces(part: str) -> list[str]:
    """What a part measures by itself."""
    found: list[str] = import_module(f"reliability.{part}").pieces()
    return found


def circumstances() -> dict[str, Any]:
    """The date, the commit, a hash of the package's source, and the mean load of the last quarter of an hour."""
    commit, load = _revision("HEAD"), round(os.getloadavg()[2], 1)
    return {"date": f"{datetime.now(UTC):%Y-%m-%d}", "commit": commit, "source": source(), "load": load}


def source() -> str:
    """A hash of what is measured, as it was committed."""
    return _revision("HEAD:src")


def _revision(of: str) -> str:
    command = ["git", "rev-parse", "--short=10", of]
    return subprocess.run(command, cwd=HERE.parents[1], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
