"""The Content-Security-Policy of a page in a real browser: what is planted in the file does not run, the page does."""

import pytest

pytest.importorskip("plotly", reason="needs plotly: pip install 'invariance[report]'")

from invariance.core.artefacts import Curve, Figure, Lines
from invariance.report.html_page import render
from invariance.report.page import Page

PLANTED = {
    "script": "<script>document.title = 'planted'</script>",
    "handler": "<img src=x onerror=\"document.title = 'planted'\">",
    "address": "<script src='data:text/javascript,document.title = 1'></script>",
    "link": "<a id=trap href=\"javascript:document.title = 'planted'\">x</a>",
    "sheet": "<style>main { display: none }</style>",
    "base": "<base href='https://example.org/'>",
}


@pytest.fixture(scope="module")
def text() -> str:
    curve = Curve("a", (0.0, 1.0), (1.0, 2.0), (0.5, 1.5), (1.5, 2.5))
    figure = Figure("drawn", "A figure", "caption", (Lines("panel", "x", "y", (curve,)),))
    return render(Page("A page", "note", "made", (("runs", "1"),), (figure,)))


def test_the_page_works_and_breaks_none_of_its_own_rules(text, tmp_path, visit):
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    seen = visit(tmp_path / "page.html")
    seen.see("#drawn")
    seen.page.locator("#drawn .chart").hover()
    assert seen.wrong == []


@pytest.mark.parametrize(
    "names",
    [list(PLANTED), *(pytest.param([name], marks=pytest.mark.slow) for name in PLANTED)],
    ids=["everything", *PLANTED],
)
def test_what_was_planted_does_nothing(text, tmp_path, visit, names):
    planted = text.replace("</main>", f"{''.join(PLANTED[name] for name in names)}</main>")
    assert planted != text
    (tmp_path / "page.html").write_text(planted, encoding="utf-8")
    seen = visit(tmp_path / "page.html")
    seen.see("#drawn")
    seen.page.evaluate("document.getElementById('trap')?.click()")
    assert seen.page.title() == "A page"
    assert seen.page.locator("main").is_visible()
    assert seen.page.url.startswith("file:")
    assert sum("Content Security Policy" in line for line in seen.wrong) >= len(names)
