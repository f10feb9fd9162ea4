import base64
import gzip
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

from invariance.report.html_page import MAX_LINES, render
from invariance.report.page import Block, Chapter, Choice, Page

VOID = {"meta", "input", "br", "img", "link"}


class Reader(HTMLParser):
    """Elements of a page, its texts, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["script"], ["style"]):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def test_everything_is_on_the_page(page):
    text = Reader(render(page)).text
    for said in (
        *("Runs of November", "Made on a small machine.", "1,240", "Table 4: batches", "68.3 ± 0.3", "68.33 ± 0.31"),
        *("no run yet", "Accuracy over β", "Left out: 12 more settings.", "the loss is nan after 12 updates"),
        *("0123456789abcdef", "Somebody et al., 2020", "It is averaged.", "2.13.0", "@software{invariance,"),
    ):
        assert said in text


def test_nothing_on_the_page_points_elsewhere(page):
    reader = Reader(render(page))
    assert not [value for name, value in reader.attributes if name in ("src", "srcset", "action", "data", "style")]
    assert all(value.startswith("#") for name, value in reader.attributes if name == "href")
    assert "link" not in reader.tags
    assert any((value or "").startswith("default-src 'none'") for name, value in reader.attributes if name == "content")


def test_the_charting_library_is_there_once_and_packed(page):
    (packed,) = re.findall(r'<script type="text/plain" id="plotly">(.*?)</script>', render(page))
    assert gzip.decompress(base64.b64decode(packed)).count(b"plotly.js (cartesian - minified) v") == 1


def test_no_two_elements_share_an_id(page):
    ids = [value for name, value in Reader(render(page)).attributes if name == "id"]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("names", ["hostile"], indirect=True)
def test_names_of_others_are_text_and_nothing_else(page, hostile):
    plain = Reader(render(replace(page, title="Runs", note="")))
    page = replace(page, title=hostile[0], note=hostile[1] + hostile[2], made=hostile[3])
    reader = Reader(render(page))
    assert reader.tags == plain.tags + Counter({"p": 1})  # the note
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert hostile[0] in reader.text
    assert hostile[1] in reader.text


@pytest.mark.parametrize("names", ["hostile"], indirect=True)
def test_no_chart_ends_its_script(page):
    text = render(page)
    charts = re.findall(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)
    assert len(charts) == 7
    assert not any("<" in chart for chart in charts)


def test_a_page_of_nothing_is_a_page():
    assert "How to cite" in Reader(render(Page("Empty", "", "today", ()))).text


def test_the_contents_list_every_chapter_and_what_is_in_it(page):
    links = [value for name, value in Reader(render(page)).attributes if name == "href"]
    for chapter in page.chapters:
        assert f"#{chapter.name}" in links
    assert links.count("#table-4") == links.count("#boxes") == 2  # in the contents, and beside its own heading


def test_long_data_are_packed(page):
    (folded,) = (replace(chapter, folded=True) for chapter in page.chapters if chapter.name == "runs")
    text = render(replace(page, chapters=(folded,)))
    assert "68.3 ± 0.3" not in text
    (packed,) = re.findall(r'<script type="text/plain" class="packed">(.*?)</script>', text)
    assert "68.3 ± 0.3" in gzip.decompress(base64.b64decode(packed)).decode()


def test_other_versions_of_a_block_are_packed_each_once(page, table):
    other = replace(table, caption="Another rule.")
    versions = {("last",): (table,), ("oracle",): (other,), ("invariant",): (other,)}
    block = Block("table-4", "Table 4", versions, (Choice("checkpoint", ("last", "oracle", "invariant")),))
    text = render(replace(page, chapters=(Chapter("studies", "Studies", blocks=(block,)),)))
    assert "Another rule." not in text
    (packed,) = re.findall(r'<script type="text/plain" class="packed">(.*?)</script>', text)
    content = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert content["shown"] == {"last": -1, "oracle": 0, "invariant": 0}
    assert ["Another rule." in piece for piece in content["pieces"]] == [True]


def test_a_table_with_the_title_of_its_chapter_has_no_heading_of_its_own(page):
    assert Reader(render(page)).text.count("Failed runs") == 2  # in the navigation and above the chapter


def test_a_table_as_cards_names_every_field(page):
    reader = Reader(render(replace(page, chapters=page.chapters[-2:])))
    assert reader.tags["table"] == 0
    assert reader.text.count("minimises") == len(page.chapters[-2].artefacts[0].lines)


def test_formulas_have_raised_and_lowered_letters(page):
    assert "min<sub>θ</sub>" in render(page)
    assert "R<sup>e</sup>(w∘θ)" in render(page)


def test_rendering_needs_no_torch():
    code = "import sys, invariance.report.page, invariance.report.export; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_page_shows_the_first_lines_of_a_very_long_table_and_says_so(page, table):
    lines = tuple(replace(table.lines[0], label=f"line {i}", cells=("x",)) for i in range(MAX_LINES + 3))
    long = replace(table, columns=table.columns[:1], lines=lines)
    chapter = Chapter("long", "Long", artefacts=(long,))
    text = render(replace(page, chapters=(chapter,)))
    assert f"line {MAX_LINES - 1}<" in text
    assert f"line {MAX_LINES}<" not in text
    assert "Not listed: 3 more lines" in text
