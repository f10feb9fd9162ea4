"""Measure everything and write docs/reliability.md: each part in a process of its own, results kept beside this file.

A part that was measured before is measured again only if it is named: ``python -m reliability crashes fuzz``.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from reliability.page import page

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
PAGE = HERE.parents[1] / "docs" / "reliability.md"
PARTS = ("crashes", "fuzz", "memory", "configurations", "properties", "soak")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what to measure again (default: all)")
    parser.add_argument("--page", action="store_true", help="write the page from what was measured before")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for part in () if options.page else options.parts or PARTS:
        command = [sys.executable, "-m", f"reliability.{part}"]
        done = subprocess.run(command, cwd=HERE.parent, stdout=subprocess.PIPE, check=True, text=True)
        results[part] = json.loads(done.stdout)
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    main()
