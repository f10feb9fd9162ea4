"""Published runs as they are used: in a copy of the package, without a store and without data."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

import invariance as package
from invariance.experiments.published import read
from invariance.experiments.run import execute
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store
from invariance.studies import STUDIES

SMALL = {"data": {"samples": 100}, "recipe": {"epochs": 4, "batch_size": 50}, "evaluation": {"checkpoints": 2}}


COMMANDS = """
import sys
from pathlib import Path
from invariance.cli import main

def invariance(*arguments):
    sys.argv = ["invariance", *arguments]
    try:
        main()
    except SystemExit as end:
        assert end.code == 0
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """Run commands of a copy of the package that lies beside the package's own runs."""
    root = tmp_path_factory.mktemp("copy")
    source = Path(package.__file__).parent
    shutil.copytree(source, root / "src" / "invariance")
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "INVARIANCE_DATA": str(root / "no data")}

    def run(*code: str) -> str:
        command = [sys.executable, "-c", "\n".join((COMMANDS, *code))]
        done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run.root = root
    return run


def test_a_copy_of_the_package_opens_the_report_of_its_published_runs(copy):
    made = execute(Spec.of("two-bit", "irmv1", "short", 0, SMALL)).run
    specs = [arm.spec for arm in STUDIES["table-a5"]().arms("quick")]
    with Store(copy.root / "runs.db") as store:
        for spec in specs:
            store.add(replace(made, spec=spec, status="finished"))
        store.add(replace(made, spec=STUDIES["table-a5"]().arms("smoke")[0].spec))
        store.add(made)  # of no study
    (copy.root / "src/invariance/experiments/published.jsonl.xz").unlink()
    many = len(specs)
    show = f"invariance('runs', 'show', {specs[0].key[:8]!r}, '--published', '--json')"
    lines = ("invariance('runs', 'publish')", "Path('runs.db').unlink()", "invariance('report', '--published')", show)
    said, where, shown = copy(*lines).split("\n", 2)
    assert said.startswith(f"{many} runs of studies, {many} of them new; {many} in ")
    assert where == "report: report.html"
    text = (copy.root / "report.html").read_text(encoding="utf-8")
    assert f"Report on {many} runs" in text
    assert "Table A5: a failure case of IRMv1" in text
    shown = json.loads(shown)
    assert (shown["key"], shown["weights"]) == (specs[0].key, made.weights)
    assert not (copy.root / "runs.db").exists()


def test_published_runs_are_listed(invariance):
    listed = invariance("runs", "list", "--published", "--json").json
    assert {run["key"] for run in listed} == read().keys()


def test_a_store_and_the_published_runs_are_not_read_at_once(invariance, tmp_path):
    error = invariance("report", "--published", "--store", tmp_path / "my.db").error
    assert error.startswith("--published reads the runs of the package and --store those of ")


def test_what_could_not_be_published_is_refused(invariance, tmp_path):
    assert "there is no store" in invariance("runs", "publish", "--store", tmp_path / "my.db").error
    scale = invariance("runs", "publish", "--scale", "fulll", "--store", tmp_path / "my.db").error
    assert scale == "no scale is called 'fulll'. Did you mean 'full'?"
