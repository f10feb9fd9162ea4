"""The guides' examples are true."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_one_file_in_the_folder_makes_a_method_that_every_command_knows(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    assert code
    shutil.copytree(ROOT / "src" / "invariance", tmp_path / "invariance")
    (tmp_path / "invariance" / "methods" / "risk_range.py").write_text(code[1])

    def invariance(*arguments: str) -> list[dict[str, object]]:
        done = subprocess.run(
            [sys.executable, "-m", "invariance", *arguments, "--json"],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    listed = {entry["name"]: entry for entry in invariance("list", "methods")}
    assert listed["risk-range"]["formula"] == "min_{w,θ} mean_e R^e + γ (max_e R^e − min_e R^e)²"
    (row,) = invariance(
        *("compare", "--data", "two-bit", "--methods", "risk-range", "--seeds", "1"),
        *("--set", "objective.gamma=1e4", "--recipe", "short+sam"),
    )
    assert row["method"] == "risk-range"
    assert row["gap"] < 2  # two-bit's invariant optimum


def test_the_python_example_of_the_readme_runs_and_ends_invariant(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code
    (tmp_path / "example.py").write_text("import torch\ntorch.set_num_threads(1)\n" + code[1])
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 10
    assert float(lines[-1].split()[-1]) < 0.1
