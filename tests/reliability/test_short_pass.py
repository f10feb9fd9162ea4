"""A short pass of what 'make bench-reliability' measures at length."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")

SLOW = pytest.mark.slow
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def measured(part: str, *options: str):
    """What a part of the bench prints."""
    command = [sys.executable, "-m", f"reliability.{part}", *options]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler: apt-get install gcc")
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: faults are preloaded into libc's calls")
def test_nothing_is_lost_or_half_written_when_a_process_is_interrupted():
    names = ("train --overwrite", "worker", "image cache")
    only = [word for name in names for word in ("--only", name)]
    found = measured("crashes", "--share", "0.06", *only)
    assert found["wrong"] == []
    assert found["faults"] >= 24
    assert {scenario for scenario, _, _ in found["by_scenario"]} == set(names)


@pytest.mark.parametrize("mutations", [8, pytest.param(20, marks=SLOW)])
def test_damaged_input_ends_in_one_line_or_in_a_right_answer(mutations):
    found = measured("fuzz", "--mutations", str(mutations))
    assert len(found) == 13
    assert [finding for each in found for finding in each["wrong"]] == []
    assert max(each["megabytes"] for each in found) < 2048


@pytest.mark.parametrize("draws", [15, pytest.param(40, marks=SLOW)])
def test_drawn_configurations_end_in_a_sound_model_or_in_one_line(draws):
    found = measured("configurations", "--only", f"0-{draws - 1}")
    assert found["wrong"] == []
    assert sum(found["outcomes"].values()) == draws


def test_the_page_shows_what_was_measured():
    code = "import json, sys; from reliability.page import page; sys.stdout.write(page(json.load(sys.stdin)))"
    results = (BENCHMARKS / "reliability" / "results.json").read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=BENCHMARKS, input=results, stdout=subprocess.PIPE, check=True
    )
    shown = (BENCHMARKS.parent / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert done.stdout.decode() == shown, "give: python -m reliability --page"
