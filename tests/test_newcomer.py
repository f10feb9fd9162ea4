"""A newcomer's path: README, demo, quickstart, a table, its report, predictions, typed as the pages show it."""

import csv
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICKSTART = (ROOT / "docs" / "start" / "quickstart.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(.*)\n((?:.*\n)*?)^```$", re.MULTILINE)


def steps(page: str) -> list[tuple[str, str]]:
    """What a page says to do, in order: programs to run and lines to type."""
    found = []
    for language, code in BLOCK.findall(page):
        found += [(language, code)] if language else [("command", line) for line in code.splitlines() if line]
    return found


def test_the_path_leads_from_the_readme_to_the_quickstart_to_a_prediction():
    assert steps(README)[0][1].startswith("make demo ")
    assert "(docs/start/quickstart.md)" in README
    words = [code.split()[1] for kind, code in steps(QUICKSTART) if kind == "command"]
    assert words == ["fit", "predict", "evaluate", "fit", "evaluate"]
    assert steps(QUICKSTART)[0][0] == "python"
    assert "Save this as `patients.py` and run it with `python patients.py`" in QUICKSTART


@pytest.fixture
def type_(tmp_path) -> Callable[[str], str]:
    """Type a line into a shell, in a checkout whose environment is installed and activated; gives what it prints."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (installed := tmp_path / ".venv").mkdir()
    for part in ("pyvenv.cfg", "bin", "lib"):
        (installed / part).symlink_to(Path(sys.prefix) / part)
    (installed / "report").touch()  # the stamp of the extra
    activated = os.environ | {"PATH": f"{installed / 'bin'}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}

    def run(line: str) -> str:
        done = subprocess.run(
            ["/bin/sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False, env=activated
        )
        assert done.returncode == 0, f"{line}\n{done.stderr[-2000:]}"
        return done.stdout

    return run


@pytest.mark.slow
def test_the_path_is_walked_as_the_pages_show_it(tmp_path, type_):
    demo = type_(steps(README)[0][1])
    assert "Where the spurious cue misleads most, the accuracy of ERM is 5 %" in " ".join(demo.split())
    printed = []
    for number, (kind, code) in enumerate(steps(QUICKSTART)):
        if kind == "python":
            script = "patients.py" if not number else f"step-{number}.py"
            (tmp_path / script).write_text(code, encoding="utf-8")
            code = f"python {script}"
        printed.append(type_(code))
    assert (tmp_path / "model" / "report.html").stat().st_size > 100_000
    with (tmp_path / "predictions.csv").open() as file:
        assert list(next(csv.DictReader(file))) == ["prediction", "probability_no", "probability_yes"]
    ours, erm = (float(re.search(r"average (\S+) %", text)[1]) for text in (printed[3], printed[5]))
    assert ours > 70 > 55 > erm
    assert "note" in printed[1]
