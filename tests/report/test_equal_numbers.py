"""Every number of a report is the same in all formats that it is written in."""

import csv
import io
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

from invariance.core.artefacts import Difference, Printed, Quantity, Table
from invariance.evaluation.scores import Scores
from invariance.experiments.run import Run, execute
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store
from invariance.report.html_page import render
from invariance.report.render.csv_files import comma_separated
from invariance.report.render.formats import difference, fixed, interval, mean, plain, printed
from invariance.report.render.latex import escape, latex
from invariance.report.render.markdown import escape as escape_markdown
from invariance.report.render.markdown import markdown
from invariance.report.study_report import collect
from invariance.studies import STUDIES

Numbers = Counter[tuple[str, str, str, str]]
"""Label of the line, our number, the printed one and their difference, as texts."""


SMALL = {"data": {"samples": 100}, "recipe": {"epochs": 2, "batch_size": 50}, "evaluation": {"checkpoints": 1}}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Of a store with two seeds of some studies, of which some collapsed, and one run of another scale.

    All are one run under other specs and with other scores: a report never trains.
    """
    made = execute(Spec.of("two-bit", "irmv1", "short", changes=SMALL)).run
    (last,) = made.history

    def run(spec: Spec, place: int) -> Run:
        shares = {name: 0.3 + 0.01 * place + 0.3 * value for name, value in last.test.by_environment.items()}
        gone = place % 7 == 0
        history = (replace(last, test=Scores(shares), collapsed=gone, homogeneity=1.0),)
        return replace(made, spec=spec, status="collapsed" if gone else "finished", history=history)

    with Store(tmp_path_factory.mktemp("store") / "runs.db") as store:
        for name in ("table-4", "table-a2", "table-a5", "table-3", "parts"):
            for place, arm in enumerate(STUDIES[name]().arms("smoke")):
                for seed in range(2):
                    store.add(run(arm.spec.with_seed(seed), place + 2 * seed))
        store.add(run(STUDIES["table-4"]().arms("quick")[1].spec, 1))
        return collect(store)


@pytest.fixture(scope="module")
def tables(page) -> dict[str, Table]:
    """Those of means and differences."""
    found = [a for a in page.artefacts(folded=False) if isinstance(a, Table) and a.name != "overview"]
    kinds = Quantity, Difference
    return {a.name: a for a in found if any(isinstance(cell, kinds) for line in a.lines for cell in line.cells)}


def filled(table: Table) -> Table:
    """Without the columns in which no line has a number, of ours or a printed one: on a page these hold words."""
    cells = [[line.cells[i] for line in table.lines] for i in range(len(table.columns))]
    kept = [i for i, own in enumerate(cells) if any(_has_number(cell) for cell in own)]
    lines = tuple(replace(line, cells=tuple(line.cells[i] for i in kept)) for line in table.lines)
    return replace(table, columns=tuple(table.columns[i] for i in kept), lines=lines)


def _has_number(cell) -> bool:
    match cell:
        case Quantity():
            return bool(cell.ours or cell.printed)
        case Difference():
            return bool(cell.values)
        case _:
            return cell not in ("", None)


def numbers(table: Table) -> Numbers:
    """What every format must show of a table."""
    found: Numbers = Counter()
    for line in table.lines:
        for cell in line.cells:
            if isinstance(cell, Quantity):
                found[line.label, mean(cell), printed(cell.printed), difference(cell)] += 1
            elif isinstance(cell, Difference):
                found[line.label, interval(cell), "", ""] += 1
            elif isinstance(cell, int | float):
                found[line.label, plain(cell), "", ""] += 1
    return found


class Cells(HTMLParser):
    """The numbers of every table of a page, by the name of its article."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, Numbers] = {}
        self.article = self.label = ""
        self.parts: dict[str, str] = {}
        self.where: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "article":
            self.article = attributes["id"]
        if tag == "td":
            self.parts, self.where = {}, ["ours"] if "number" in attributes.get("class", "") else []
        elif tag == "th" and attributes.get("scope") == "row":
            self.label, self.where = "", ["label"]
        elif tag in ("span", "sup") and self.where:
            inside = (attributes.get("class") or tag).split()[0]
            self.where.append(self.where[-1] if inside == "words" else inside)

    def handle_endtag(self, tag):
        if tag == "td" and self.where and self.parts.get("ours"):
            told = [self.parts.get(part, "").strip() for part in ("ours", "beside", "difference")]
            self.found.setdefault(self.article, Counter())[self.label, *told[:2], told[2].removeprefix("Δ ")] += 1
        if tag in ("td", "th"):
            self.where = []
        elif tag in ("span", "sup") and self.where:
            self.where.pop()

    def handle_data(self, data):
        if self.where[:1] == ["label"]:
            self.label += data.strip()
        elif self.where:
            self.parts[self.where[-1]] = self.parts.get(self.where[-1], "") + data


def rows(header: list[str], body: list[list[str]]) -> Numbers:
    """Of a table whose columns are called "ours", "printed", "difference" and "n", or otherwise."""
    found: Numbers = Counter()
    for label, *cells in body:
        for i, (name, text) in enumerate(zip(header[1:], cells, strict=True)):
            if name in ("printed", "difference", "n"):
                continue
            ours = re.sub(r" \[[a-z]+\]$", "", text)
            compared = header[2 + i : 4 + i] == ["printed", "difference"]
            if ours:
                found[label, ours, *(cells[i + 1 : i + 3] if compared else ("", ""))] += 1
    return found


def in_markdown(table: Table) -> Numbers:
    found: Numbers = Counter()
    header: list[str] = []
    for line in markdown(table).splitlines():
        if not line.startswith("| "):
            header = []
        elif not header:
            header = [name.strip().rpartition(", ")[2] for name in line.strip("| ").split(" | ")]
        elif not line.startswith("| ---"):
            cells = [re.sub(r"\\(.)", r"\1", cell).strip() for cell in line[2:-2].split(" | ")]
            found += rows(header, [cells])
    return found


def in_latex(table: Table) -> Numbers:
    signs = {escape(sign): sign for sign in "±−–βα,%"}
    found: Numbers = Counter()
    text = re.sub(r"\\bottomrule\s+\\endfoot|\\allowbreak\{\}", "", latex(table))  # of a table over several pages
    for tabular in re.findall(r"\\toprule(.*?)\\(?:bottomrule|end\{longtable)", text, re.DOTALL):
        lines = [line.strip().removesuffix(r" \\") for line in tabular.splitlines() if " & " in line]
        for tex, sign in signs.items():
            lines = [line.replace(tex, sign) for line in lines]
        lines = [line.replace("{[}", "[").replace("{]}", "]") for line in lines]
        top = sum(" & " in line for line in tabular.partition(r"\midrule")[0].splitlines())
        header = [cell.strip() for cell in lines[top - 1].split(" & ")]
        found += rows(header, [[cell.strip() for cell in line.split(" & ")] for line in lines[top:]])
    return found


def in_csv(table: Table) -> Numbers:
    found: Numbers = Counter()
    for row in csv.DictReader(io.StringIO(comma_separated(table))):
        if row.get("value"):
            found[row["line"], plain(float(row["value"])), "", ""] += 1
        elif "low" in row:
            ends = f" [{fixed(float(row['low']))}, {fixed(float(row['high']))}]" if row["low"] else ""
            ours = fixed(float(row["mean"]), signed=True) + ends if row["mean"] else "–"
            found[row["line"], ours, "", ""] += 1
        else:
            deviation = f" ± {fixed(float(row['std']))}" if row["std"] else ""
            ours = fixed(float(row["mean"])) + deviation if row["mean"] else "–"
            number = row.get("printed_mean") and Printed(
                float(row["printed_mean"]), float(row["printed_std"]) if row.get("printed_std") else None
            )
            apart = fixed(float(row["difference"]), signed=True) if row.get("difference") else ""
            found[row["line"], ours, printed(number or None), apart] += 1
    return found


def test_html_csv_markdown_and_latex_have_the_same_numbers(page, tables):
    html = Cells(render(page)).found
    assert {"table-4", "table-4-differences", "table-3", "table-a2", "table-a5-differences", "parts"} <= tables.keys()
    for name, table in tables.items():
        expected = numbers(table)
        assert html[name] == numbers(filled(table)), name
        assert in_csv(table) == expected, name
        assert in_markdown(table) == expected, name
        assert in_latex(table) == expected, name


class Rows(HTMLParser):
    """The texts of every table of a page, by article and by the label of the line."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, dict[str, list[str]]] = {}
        self.article = self.label = ""
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "article":
            self.article = attributes["id"]
        if tag == "th" and attributes.get("scope") == "row":
            self.inside, self.label = "label", ""
        elif tag == "td":
            self.inside = "cell"
            self.found.setdefault(self.article, {}).setdefault(self.label, []).append("")

    def handle_endtag(self, tag):
        self.inside = "" if tag in ("td", "th") else self.inside

    def handle_data(self, data):
        if self.inside == "label":
            self.label += data
        elif self.inside == "cell":
            self.found[self.article][self.label][-1] += data


def numerals(texts: list[str]) -> Counter[str]:
    """All numbers in these texts, as they are written there."""
    return Counter(found for text in texts for found in re.findall(r"[−-]?\d+(?:\.\d+)?", text.replace("$-$", "−")))


def by_label(lines: list[str], separator: str) -> dict[str, list[str]]:
    """The texts of the cells of a table that may be in several pieces, each with the labels again."""
    found: dict[str, list[str]] = {}
    for line in lines:
        label, *cells = (cell.strip() for cell in line.split(separator))
        found.setdefault(label, []).extend(cells)
    return found


def close(text: str, value: float) -> bool:
    """Whether a number is what a text has of it."""
    written = float(text.replace("−", "-"))
    return abs(written - value) <= 0.5000001 * 10.0 ** -len(text.partition(".")[2])


def test_tables_of_other_things_too_have_the_same_numbers_in_all_formats(page):
    """The overview, the audit and the like: line by line, as multisets; a CSV file has the numbers before rounding."""
    html = Rows(render(page)).found
    tables = [a for a in page.artefacts(folded=False) if isinstance(a, Table)]
    of_means = [a for a in tables if any(isinstance(c, Quantity | Difference) for x in a.lines for c in x.cells)]
    plain_ones = [a for a in tables if a.name in html and (a not in of_means or a.name == "overview")]
    names = {"overview", "failed-runs", "audit-impossible", "audit-floor", "audit-disagreements", "audit-repeats"}
    assert names <= {a.name for a in plain_ones}
    for table in plain_ones:
        labels = [line.label for line in table.lines]
        lines = [x[2:-2] for x in markdown(table).splitlines() if x.startswith("| ") and not x.startswith("| ---")]
        told = by_label([re.sub(r"\\(.)", r"\1", line) for line in lines], " | ")
        tex = [x.removesuffix(r" \\") for x in latex(table).splitlines() if " & " in x]
        in_tex = by_label([x.replace(r"\allowbreak{}", "").replace(r"$\cdot$", "·") for x in tex], " & ")
        values: dict[str, list[str]] = {}
        for row in csv.DictReader(io.StringIO(comma_separated(table))):
            label, *cells = row.values()
            in_long_form = [row.get(name) or "" for name in ("value", "mean")] if "line" in row else cells
            values.setdefault(label, []).extend(filter(is_number, in_long_form))
        for label in dict.fromkeys(labels):
            expected = numerals(told[label])
            assert numerals(html[table.name][label]) == expected, (table.name, label)
            assert numerals(in_tex[tex_label(label)]) == expected, (table.name, label)
            for value in values.get(label, ()):
                assert any(close(number, float(value)) for number in expected), (table.name, label, value)


def is_number(text: str) -> bool:
    return bool(re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", text))


def tex_label(label: str) -> str:
    return escape(label).replace(r"\allowbreak{}", "").replace(r"$\cdot$", "·")


def test_escapes_of_markdown_are_undone_here_as_they_were_done_there():
    assert re.sub(r"\\(.)", r"\1", escape_markdown("a_b [c] | d")) == "a_b [c] | d"
