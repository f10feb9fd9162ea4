"""Pin what `make test` installs by hashes: writes .ci/requirements-PYTHON-PLATFORM.txt for this interpreter.

pip says which files it would install for the extra ``dev``, and their hashes. torch is left out: its build differs
between package sources, so `.ci/run` installs it by its version (constraints.txt), after everything else.
"""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAME = f"requirements-cp{sys.version_info.major}{sys.version_info.minor}-{sysconfig.get_platform()}.txt"
LEFT_OUT = {"invariance", "torch"}


def main() -> None:
    """Ask pip, and write the file."""
    options = ("--dry-run", "--ignore-installed", "--quiet", "--constraint", "constraints.txt", "--report", "-")
    command = [sys.executable, "-m", "pip", "install", *options, ".[dev]"]
    report = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    found = {item["metadata"]["name"].lower(): item for item in report["install"]}
    lines = []
    for name, item in sorted(found.items()):
        if name not in LEFT_OUT:
            digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
            lines.append(f"{name}=={item['metadata']['version']} --hash=sha256:{digest}")
    head = "# Written by `make hashes`: what the extra dev needs, without torch; each file is known by its hash."
    (ROOT / ".ci" / NAME).write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
