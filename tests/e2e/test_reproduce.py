"""Every table and figure by one command, at the smallest scale, on the real files; and the page they make."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

from invariance.cli.ending import INCOMPLETE
from invariance.studies import STUDIES
from invariance.studies.support.scales import SCALES, differences

COMMAND = Path(sys.executable).with_name("invariance")


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([COMMAND, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, INCOMPLETE), done.stderr  # data of some studies may be missing
    return done


SOME = ("table-a5", "figure-2", "audit")


@pytest.mark.parametrize("studies", [SOME, pytest.param(("all",), marks=pytest.mark.slow)], ids=["some", "all"])
def test_the_whole_paper_by_one_command_and_a_page_that_holds_it(
    tmp_path, invariance, visit, published, studies, monkeypatch
):
    """One test, since its runs take minutes and everything else looks at them."""
    monkeypatch.chdir(tmp_path)
    words = ("reproduce", *studies, "--scale", "smoke", "--workers", "1", "--json")
    first, again = command(tmp_path, *words), invariance(*words)
    made = json.loads(first.stdout)
    assert json.loads(again.out) == made
    assert again.err == "" or again.code == INCOMPLETE  # nothing is run a second time
    expected = {*STUDIES.classes} if studies == ("all",) else {*studies}
    assert {name for name in STUDIES.classes if any(a["name"].startswith(name) for a in made)} >= expected
    for artefact in made:
        holds_something(artefact)
    assert invariance("report").code == 0
    seen = visit(tmp_path / "report.html")
    for artefact in made:
        is_shown(artefact, seen)
    can_be_used(seen)
    assert seen.wrong == []


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty folder to work in."""
    (work := tmp_path / "work").mkdir()
    monkeypatch.chdir(work)
    return work


def test_the_list_says_where_scales_differ_from_the_paper(invariance, folder):
    text = " ".join(invariance("reproduce", "--list").out.split())
    assert f"Where these differ from the paper: {' '.join(differences(SCALES))}" in text


def test_it_writes_a_page_of_the_named_studies_and_says_where(invariance, folder):
    done = invariance("reproduce", "audit")
    assert done.code == 0
    assert done.out.endswith("report: report.html\n")
    text = Path("report.html").read_text(encoding="utf-8")
    assert "Audit: pairs of average and gap that cannot be" in text
    assert "Table 4: large" not in text


def test_with_json_it_prints_nothing_else_and_writes_a_page_only_where_asked(invariance, folder):
    plain = invariance("reproduce", "audit", "--json")
    assert not Path("report.html").exists()
    asked = invariance("reproduce", "audit", "--json", "-o", "mine.html")
    assert asked.json == plain.json
    assert Path("mine.html").stat().st_size > 1000


def test_without_the_extra_it_says_what_a_page_needs_and_succeeds(invariance, folder, monkeypatch):
    for module in [name for name in sys.modules if name.startswith(("invariance.report", "jinja2"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    done = invariance("reproduce", "audit")
    assert done.code == 0
    assert done.out.endswith("no page: it needs jinja2 (pip install 'invariance[report]')\n")
    assert not Path("report.html").exists()


def test_a_page_that_could_not_be_written_is_refused_before_anything_runs(invariance, folder):
    done = invariance("reproduce", "table-a5", "--scale", "smoke", "-o", "nowhere/report.html")
    assert done.error == "cannot write nowhere/report.html: there is no folder nowhere"
    assert not Path("runs.db").exists()


def holds_something(artefact: dict[str, Any]) -> None:
    """Every place holds a number of ours, or says why not."""
    if artefact["kind"] == "figure":
        assert all(panel.get("curves") or panel.get("groups") or panel.get("z") for panel in artefact["panels"])
    elif artefact["name"] == "collapse-table":
        assert len(artefact["lines"]) == 8
    elif not artefact["name"].startswith("audit"):
        cells = [cell for line in artefact["lines"] for cell in line["cells"] if isinstance(cell, dict)]
        assert cells
        values = [cell["values" if "values" in cell else "ours"] for cell in cells]
        assert all(own or cell["note"] for own, cell in zip(values, cells, strict=True))
        assert any(values) or all("waits for" in cell["note"] for cell in cells)
        assert "scale smoke" in artefact["provenance"]


def is_shown(artefact: dict[str, Any], seen: Any) -> None:
    article = seen.page.locator(f"#{artefact['name']}")
    assert article.count() == 1, artefact["name"]
    if artefact["kind"] == "figure":
        seen.see(f"#{artefact['name']}")
    else:
        assert article.locator("tbody tr").count() == len(artefact["lines"])


def can_be_used(seen: Any) -> None:
    """A method is switched off, a table is sorted, nothing is wider than the window."""
    seen.page.locator("#figure-2 .legend button", has_text="IRMv1").click()
    for chart in seen.visible("#figure-2"):
        assert {on for name, on in chart if name == "IRMv1"} == {False}
        assert {on for name, on in chart if name != "IRMv1"} == {True}
    head = seen.page.locator("#table-a5 thead th", has_text="average")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert seen.overflow() <= 0
