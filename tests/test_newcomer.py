"""A newcomer's path: README, demo, quickstart, a table, its report, predictions, as the pages say it."""

import csv
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
QUICKSTART = (ROOT / "docs" / "start" / "quickstart.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(.*)\n((?:.*\n)*?)^```$", re.MULTILINE)


def steps() -> list[tuple[str, str]]:
    """What the quickstart says to do, in order: programs to run and commands to type."""
    found = []
    for language, code in BLOCK.findall(QUICKSTART):
        found += [(language, code)] if language else [("command", line) for line in code.splitlines() if line]
    return found


def test_the_path_leads_from_the_readme_to_the_quickstart_to_a_prediction():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^make demo\b", readme, re.MULTILINE)
    words = [code.split()[1] for kind, code in steps() if kind == "command"]
    assert words == ["fit", "predict", "evaluate", "fit", "evaluate"]
    assert steps()[0][0] == "python"
    assert "`patients.py`" in QUICKSTART


def type_(folder: Path, *command: str) -> str:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[-2000:]}"
    return done.stdout


@pytest.mark.slow
def test_the_demo_is_what_the_makefile_runs_and_shows_who_is_misled(tmp_path):
    (recipe,) = re.findall(r"^demo:.*\n\t\$\(BIN\)/(.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    command = str(Path(sys.executable).with_name(recipe.split()[0]))
    said = type_(tmp_path, command, *shlex.split(recipe)[1:])
    assert "Where the spurious cue misleads most, the accuracy of ERM is 5 %" in " ".join(said.split())


@pytest.mark.slow
def test_the_quickstart_runs_as_it_stands_and_shows_what_it_says(tmp_path):
    command = str(Path(sys.executable).with_name("invariance"))
    said = []
    for number, (kind, code) in enumerate(steps()):
        if kind == "python":
            script = tmp_path / ("patients.py" if not number else f"step-{number}.py")
            script.write_text(code, encoding="utf-8")
            said.append(type_(tmp_path, sys.executable, script.name))
        else:
            said.append(type_(tmp_path, command, *shlex.split(code)[1:]))
    assert (tmp_path / "model" / "report.html").stat().st_size > 100_000
    with (tmp_path / "predictions.csv").open() as file:
        assert list(next(csv.DictReader(file))) == ["prediction", "probability_no", "probability_yes"]
    ours, erm = (float(re.search(r"average (\S+) %", text)[1]) for text in (said[3], said[5]))
    assert ours > 70 > 55 > erm
    assert "note" in said[1]
