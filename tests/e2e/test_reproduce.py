"""Every table and figure by one command, at the smallest scale, on the real files; and the page they make."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("plotly", reason="needs plotly: pip install 'invariance[report]'")

from invariance.studies import STUDIES

COMMAND = Path(sys.executable).with_name("invariance")


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([COMMAND, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Where everything was reproduced."""
    if not os.environ.get("INVARIANCE_DATA"):
        pytest.skip("needs MNIST and Fashion-MNIST: set INVARIANCE_DATA to the folder that holds them")
    folder = tmp_path_factory.mktemp("reproduced")
    made = command(folder, "reproduce", "all", "--scale", "smoke", "--json")
    (folder / "made.json").write_text(made.stdout)
    command(folder, "report")
    return folder


@pytest.mark.xdist_group("reproduced")
def test_every_artefact_holds_numbers_of_ours_or_says_what_it_waits_for(folder):
    made = json.loads((folder / "made.json").read_text())
    assert {name for name in STUDIES.classes if any(a["name"].startswith(name) for a in made)} == set(STUDIES.classes)
    for artefact in made:
        if artefact["kind"] == "figure":
            assert all(panel.get("curves") or panel.get("groups") or panel.get("z") for panel in artefact["panels"])
        elif not artefact["name"].startswith("audit"):
            cells = [cell for line in artefact["lines"] for cell in line["cells"] if isinstance(cell, dict)]
            assert cells
            assert all(cell["ours"] or cell["note"] for cell in cells)
            assert any(cell["ours"] for cell in cells) or all("waits for" in cell["note"] for cell in cells)
            assert "scale smoke" in artefact["provenance"]


@pytest.mark.xdist_group("reproduced")
def test_a_second_time_nothing_is_run(folder):
    again = command(folder, "reproduce", "all", "--scale", "smoke", "--json")
    assert again.stdout == (folder / "made.json").read_text()
    assert again.stderr == ""


@pytest.mark.xdist_group("reproduced")
def test_the_page_holds_every_artefact_and_can_be_used(folder, visit):
    seen = visit(folder / "report.html")
    for artefact in json.loads((folder / "made.json").read_text()):
        article = seen.page.locator(f"#{artefact['name']}")
        assert article.count() == 1, artefact["name"]
        if artefact["kind"] == "figure":
            seen.see(f"#{artefact['name']}")
        else:
            assert article.locator("tbody tr").count() == len(artefact["lines"])
    button = seen.page.locator("#figure-1 .legend button", has_text="IRMv1")
    button.click()
    for chart in seen.visible("#figure-1"):
        assert {on for name, on in chart if name == "IRMv1"} == {False}
        assert {on for name, on in chart if name != "IRMv1"} == {True}
    head = seen.page.locator("#table-a5 thead th", has_text="average")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert seen.overflow() <= 0
    assert seen.wrong == []
