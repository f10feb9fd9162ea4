import re

import pytest

from invariance.core.artefacts import Column, Line, Table
from invariance.report.render.markdown import escape, markdown


def test_a_table_is_a_table(table):
    text = markdown(table)
    assert "| GrayScale | 68.3 ± 0.3 | 68.33 ± 0.31 | 0.0 |" in text
    assert "**small batch · Colored-MNIST**" in text
    assert "[b] collapsed 1 of 3" in text
    assert text.endswith("*2 seeds*\n")


@pytest.mark.parametrize(
    ("groups", "title", "names"),
    [
        (("β 0.1, 0.15", "β 0.1, 0.15, 0.2"), None, ["β 0.1, 0.15, average", "β 0.1, 0.15, 0.2, average"]),
        (("α 0.1, β 0.2", "α 0.1, β 0.25"), None, ["α 0.1, β 0.2, average", "α 0.1, β 0.25, average"]),
        (("PACS · small", "PACS · large"), "PACS", ["small, average", "large, average"]),
        (("PACS, VLCS", "PACS, VLCS"), "PACS, VLCS", ["average", "gap"]),
    ],
)
def test_what_all_headings_share_is_said_once_and_no_heading_is_cut(groups, title, names):
    metrics = ("average", "gap") if groups[0] == groups[1] else ("average", "average")
    columns = tuple(map(Column, metrics, groups))
    blocks = markdown(Table("t", "T", "caption", "method", columns, (Line("ERM", (1.0, 2.0)),))).split("\n\n")
    assert [block for block in blocks if block.startswith("**")] == ([f"**{title}**"] if title else [])
    assert blocks[-1].splitlines()[0] == f"| method | {' | '.join(names)} |"


def test_every_line_of_a_table_has_as_many_cells(artefacts):
    for artefact in artefacts:
        for block in markdown(artefact).split("\n\n"):
            if block.startswith("|"):
                assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_a_figure_names_its_picture(lines):
    assert "![Accuracy over β](<curves-1.png>)" in markdown(lines, "curves-1.png")


@pytest.mark.parametrize("names", ["hostile"], indirect=True)
def test_nothing_in_a_name_is_markup(artefacts):
    for artefact in artefacts:
        bare = re.sub(r"\\[!-/:-@\[-`{-~]", "", markdown(artefact).replace("](<", "").replace(">)", ""))
        assert not re.search(r"[<>`]|\]\(|<!--", bare)


def test_punctuation_is_escaped():
    assert escape("a|b*c_d<e>[f](g)") == r"a\|b\*c\_d\<e\>\[f\](g)"
