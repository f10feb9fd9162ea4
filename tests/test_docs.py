"""The code of README and docs works as it stands: Python runs, and commands take the options that are shown."""

import ast
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer

import invariance
from invariance.cli import app, main

ROOT = Path(__file__).parents[1]
GENERATED = ("generated", "_build", "notebooks")
"""Folders of the site that other tests are about."""
PAGES = [
    "README.md",
    *sorted(
        str(path.relative_to(ROOT))
        for path in (ROOT / "docs").rglob("*.md")
        if "results" not in path.name and path.relative_to(ROOT / "docs").parts[0] not in GENERATED
    ),
]
FENCED = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
NEEDS_PHOTOGRAPHS = "docs/data.md"
"""Its block trains on PACS, which has no free download; the contract tests of data sets use a tiny one."""
PRELUDE = """
import numpy as np, pandas as pd, torch
from invariance import InvariantClassifier
torch.set_num_threads(1)
table = pd.read_csv("patients.csv")
hospital, y = table["hospital"], table["sick"]
frame = table.drop(columns=["sick", "hospital"])
X = table[["age", "crp"]].fillna(0).to_numpy()
X_new = X[:3]
images = np.random.default_rng(0).integers(0, 256, (24, 3, 32, 32), dtype=np.uint8)
classes, domains = np.arange(24) % 2, np.arange(24) % 3
"""


def blocks(page: str, language: str) -> list[str]:
    """The code of a page in one language, block by block."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [code for _, found, code in FENCED.findall(text) if found == language]


def lines(page: str, first: str) -> list[str]:
    """Command lines of a page that begin with a word, without what follows a #."""
    joined = [line for block in blocks(page, "") for line in block.replace("\\\n", " ").splitlines()]
    return [line.split(" #")[0].strip() for line in joined if line.removeprefix(".venv/bin/").startswith(f"{first} ")]


@pytest.fixture(scope="session")
def desk(tmp_path_factory) -> Path:
    """A folder with the tables that the pages speak of, and a model of one of them."""
    folder = tmp_path_factory.mktemp("desk")
    rng = np.random.default_rng(0)

    def patients(rows: int, hospitals: list[str]) -> pd.DataFrame:
        age, site = rng.normal(50, 10, rows), rng.choice(hospitals, rows)
        sick = rng.random(rows) < 1 / (1 + np.exp((50 + 6 * (site == "Oslo") - age) / 5))
        crp = np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows) + sick)
        columns = {
            "patient": [f"p{i:05}" for i in range(rows)],
            "age": age,
            "crp": crp,
            "bed": rng.integers(40, size=rows),
        }
        ward = rng.choice(["A", "B"], rows)
        return pd.DataFrame({**columns, "ward": ward, "hospital": site, "sick": np.where(sick, "yes", "no")})

    known = ["Lyon", "Bern", "Graz", "Gent"]
    patients(400, known).to_csv(folder / "patients.csv", index=False)
    patients(100, ["Oslo"]).to_csv(folder / "few.csv", index=False)
    for name in ("other.csv", "later.csv"):
        patients(200, ["Oslo", "Turin"]).to_csv(folder / name, index=False)
    patients(200, known).to_parquet(folder / "new.parquet", index=False)
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_commands_take_the_options_that_they_are_shown_with(page):
    command = typer.main.get_command(app)
    for line in lines(page, "invariance"):
        context = command.make_context("invariance", shlex.split(line)[1:2], resilient_parsing=True)
        group, arguments = command, shlex.split(line)[1:]
        while hasattr(group, "commands") and arguments:
            name, *arguments = arguments
            assert name in group.commands, line
            group = group.commands[name]
        with group.make_context(group.name, arguments, parent=context) as parsed:
            assert parsed.command is group


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md"])
def test_make_has_the_targets_that_are_shown(page):
    targets = re.findall(r"^([\w.%/-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for line in lines(page, "make"):
        assert any(re.fullmatch(target.replace("%", r"\w+"), line.split()[1]) for target in targets), line


def headings(page: Path) -> set[str]:
    """The anchors of a page."""
    titles = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*PAGES, "docs/results.md", "CONTRIBUTING.md"])
def test_links_lead_to_headings(page):
    path = ROOT / page
    links = re.findall(r"\]\(([\w./-]*\.md)?#([^)\s]+)\)", path.read_text(encoding="utf-8"))
    assert not [(to, anchor) for to, anchor in links if anchor not in headings(path.parent / to if to else path)]


COMMANDS = [line for line in lines("docs/your-data.md", "invariance") if "PHOTOS" not in line and "OTHER" not in line]


@pytest.fixture(scope="session")
def fitted(desk) -> Path:
    """The commands of the page were run as they stand, but for the first model: it is ERM, without hidden layers."""
    for line in COMMANDS:
        quick = ["--method", "erm", "--hidden", "none"] if " fit " in line else []
        if "NEW/" not in line:
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(desk)
                patch.setattr(sys, "argv", [*shlex.split(line), *quick])
                with pytest.raises(SystemExit) as end:
                    main()
            assert end.value.code == 0, line
    return desk


def test_the_commands_on_a_table_run_one_after_another(fitted):
    assert {"predictions.csv", "predictions.parquet", "model", "model-there"} <= {
        path.name for path in fitted.iterdir()
    }
    header = (fitted / "predictions.csv").read_text().splitlines()[0]
    assert header.replace('"', "") == "patient,prediction,probability_no,probability_yes"


WITH_PYTHON = [page for page in PAGES if blocks(page, "python")]
RUN_ELSEWHERE = "docs/start/quickstart.md"
"""Its programs write tables of their own: test_newcomer.py."""


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_python_imports_names_that_are_there(page):
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module == "invariance":
                assert {name.name for name in node.names} <= set(dir(invariance))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in WITH_PYTHON if page != RUN_ELSEWHERE])
def test_python_runs_as_it_stands(page, fitted, tmp_path):
    if page == NEEDS_PHOTOGRAPHS:
        pytest.skip("needs PACS: see docs/data.md")
    folder = shutil.copytree(fitted, tmp_path / "desk")  # of its own: a page may save over a model
    command = [sys.executable, "-c", PRELUDE + "\n".join(blocks(page, "python"))]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_first_example_of_irm_prints_what_the_page_says(tmp_path):
    page = "docs/explanation/irm.md"
    (code,), (printed,) = blocks(page, "python"), blocks(page, "text")
    command = [sys.executable, "-c", "import torch\ntorch.set_num_threads(1)\n" + code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == printed
