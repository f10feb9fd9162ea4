"""The report as it is used: the command on a real store, and its page in a real browser without a network."""

import csv
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

from invariance.experiments.run import Run, execute
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store
from invariance.studies import STUDIES

SMALL = {"data": {"samples": 200}, "recipe": {"epochs": 20, "batch_size": 100}, "evaluation": {"checkpoints": 4}}
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
PLUGIN = '''
    from typing import ClassVar

    import torch
    from pydantic.dataclasses import dataclass

    from invariance.core.environment import Benchmark, Environment
    from invariance.data.base import DataSet
    from invariance.core.families import Bernoulli
    from invariance.models.mlp import MLP
    from invariance.methods.base import PenalisedMethod
    from invariance.core.fields import STRICT

    @dataclass(frozen=True, config=STRICT)
    class Sites(DataSet):
        """Real domains with names that a user chose."""

        title: ClassVar[str] = "HOSTILE data"
        about: ClassVar[str] = "for tests"
        citation: ClassVar[str] = "none"
        licence: ClassVar[str] = "none"
        architecture: ClassVar[MLP] = MLP(width=4)

        def load(self, seed, *, oracle=False):
            x = torch.linspace(-1, 1, 40).unsqueeze(1)
            y = (x[:, 0] > 0).long()
            train = (Environment("HOSTILE one", x, y), Environment("<b>two</b>", x, y))
            return Benchmark(Bernoulli(), train, test=train)

    @dataclass(frozen=True, config=STRICT)
    class Mine(PenalisedMethod):
        """A method of another package."""

        title: ClassVar[str] = "HOSTILE method"
        formula: ClassVar[str] = "HOSTILE"
        citation: ClassVar[str] = "HOSTILE"

        def penalty(self, batch, model, z, f):
            return f.mean() * 0
'''


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> None:
    """An empty folder to work in."""
    (work := tmp_path / "work").mkdir()
    monkeypatch.chdir(work)
    monkeypatch.delenv("INVARIANCE_DEBUG", raising=False)


@pytest.fixture
def report(invariance) -> Callable:
    """Run ``invariance report`` in this process."""
    return partial(invariance, "report")


@pytest.fixture(scope="module")
def trained() -> dict[str, Run]:
    """Real runs of three methods."""
    return {m: execute(Spec.of("two-bit", m, "short", changes=SMALL)).run for m in ("erm", "irmv1", "rex")}


def filled(path: Path, trained: dict[str, Run]) -> Path:
    """Runs of three methods, runs under the specs of a study (a report never trains), and one that failed."""
    kept = Store(path)
    for run in trained.values():
        for seed in range(3):
            kept.add(replace(run, spec=run.spec.with_seed(seed)))
    for arm in STUDIES["figure-2"]().arms("smoke"):
        for seed in range(2):
            kept.add(replace(trained["irmv1"], spec=arm.spec.with_seed(seed), status="finished"))
    kept.add(Run(trained["erm"].spec.with_seed(9), "failed", (), 1.0, HOSTILE))
    kept.close()
    return path


@pytest.fixture
def store(trained) -> Path:
    return filled(Path("runs.db"), trained)


@pytest.fixture(scope="module")
def page(trained, invariance, tmp_path_factory) -> Path:
    """A report that several tests open."""
    folder = tmp_path_factory.mktemp("page")
    path = folder / "report.html"
    invariance("report", "--store", filled(folder / "runs.db", trained), "-o", path)
    return path


@pytest.fixture
def hostile_store(store, plugin) -> Path:
    """The same, with runs of a data set and a method of another package, both badly named."""
    entries = {"data": ["sites = another_package:Sites"], "objectives": ["mine = another_package:Mine"]}
    plugin(PLUGIN.replace("HOSTILE", HOSTILE), **entries)
    kept = Store(store)
    for method in ("mine", "erm"):
        run = execute(Spec.of("sites", method, "short", changes={"recipe": {"epochs": 4, "lr": 0.05}})).run
        kept.add(replace(run, status="finished"))
    kept.close()
    return store


# The command


def test_it_writes_one_page_and_says_where(report, store):
    done = report()
    assert (done.code, done.out, done.err) == (0, "report: report.html\n", "")
    text = Path("report.html").read_text(encoding="utf-8")
    for said in ("Report on 16 runs", "Figure 2: accuracy in every", "Two-Bit", "How to cite", "the paper"):
        assert said in text
    assert not list(Path().glob("*.part"))


def test_title_and_note_are_shown(report, store):
    report("-o", "mine.html", "--title", "Ours & <theirs>", "--note", "Read <this>")
    text = Path("mine.html").read_text(encoding="utf-8")
    assert "<title>Ours &amp; &lt;theirs&gt;</title>" in text
    assert "Read &lt;this&gt;" in text


def test_named_studies_are_shown_alone(report, store):
    assert report("figure-2", "-o", "one.html").code == 0
    text = Path("one.html").read_text(encoding="utf-8")
    assert "Figure 2" in text
    assert "Audit" not in text


@pytest.mark.parametrize(
    "how", ["markdown", "latex", "csv", *(pytest.param(each, marks=pytest.mark.slow) for each in ("png", "svg"))]
)
def test_every_table_and_figure_becomes_a_file(report, hostile_store, how):
    done = report("--format", how)
    assert (done.code, done.err) == (0, "")
    ending = {"markdown": "md", "latex": "tex"}.get(how, how)
    files = list(Path("report").iterdir())
    assert done.out == f"{len(files)} files: report\n"
    names = {path.stem for path in files if path.suffix == f".{ending}"}
    assert {"overview", "figure-2", "figure-2-averages", "audit-impossible"} <= names
    assert any(name.startswith("curves-two-bit") for name in names)
    long = {"trials", "figure-2-seeds"} & names, any(name.startswith("history-two-bit") for name in names)
    assert long == (({"trials", "figure-2-seeds"}, True) if how == "csv" else (set(), False))
    assert all(path.stat().st_size for path in files)
    if how == "csv":
        with Path("report/figure-2-averages.csv").open(encoding="utf-8", newline="") as file:
            assert {"line", "mean", "std", "seeds", "printed_mean", "difference"} <= set(next(csv.reader(file)))
        with Path("report/figure-2-seeds.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 3 * 2  # one row per method and seed
        wanted = {"method", "data", "recipe", "scale", "selection", "seed", "status", "average", "gap", "key"}
        assert wanted <= rows[0].keys()


def test_the_latex_of_a_whole_report_compiles(report, hostile_store):
    pdflatex = shutil.which("pdflatex")
    if not pdflatex:
        pytest.skip("needs pdflatex: apt-get install texlive-latex-base texlive-latex-recommended")
    report("--format", "latex", "-o", "tex")
    command = [pdflatex, "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    done = subprocess.run(command, cwd="tex", capture_output=True, check=False)
    said = done.stdout.decode(errors="replace")
    assert done.returncode == 0, said[-2000:]
    assert not re.findall(r"Overfull.*|.*too large.*", said)


BAD = {
    "no store": (["--store", "none.db"], "there is no store none.db"),
    "unknown format": (["--format", "latx"], "Did you mean 'latex'?"),
    "unknown study": (["table4"], "Did you mean 'table-4'?"),
    "unknown scale": (["--scale", "ful"], "Did you mean 'full'?"),
    "unknown selection": (["--selection", "lst"], "Did you mean 'last'?"),
    "selection without its runs": (["--selection", "leave-one-environment-out"], "hold environments out"),
    "no folder": (["-o", "nowhere/report.html"], "there is no folder nowhere"),
    "a folder instead of a file": (["-o", "."], "it is a folder"),
    "a file instead of a folder": (["--format", "csv", "-o", "runs.db"], "it is no folder"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_writes_nothing(report, store, case):
    arguments, said = BAD[case]
    done = report(*arguments)
    assert done.code != 0
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert said in done.err
    assert {path.name for path in Path().iterdir()} - {"runs.db-wal", "runs.db-shm"} == {"runs.db"}


def test_a_missing_extra_is_one_line(report, store, monkeypatch):
    for module in [name for name in sys.modules if name.startswith(("invariance.report", "jinja2"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert report().err == "error: a report needs jinja2: pip install 'invariance[report]'\n"


def test_a_hundred_thousand_runs_are_counted_and_the_page_stays_small(report, trained):
    kept = Store(Path("runs.db"))
    kept.add(trained["irmv1"])
    record = json.dumps(trained["irmv1"].to_json())
    kept.close()
    with sqlite3.connect("runs.db") as database:
        (row,) = database.execute("SELECT * FROM runs")
        names = [column[0] for column in database.execute("SELECT * FROM runs LIMIT 0").description]
        first = dict(zip(names, row, strict=True))
        many = [first | {"key": f"{i}", "trial": f"{i // 10}", "seed": i % 10} for i in range(99_999)]
        many = [each | {"recipe": f"r{int(each['trial']) % 40}"} for each in many]
        many = [each | {"status": "collapsed" if i % 300 == 0 else "finished"} for i, each in enumerate(many)]
        database.executemany(
            f"INSERT INTO runs VALUES ({','.join('?' * len(names))})", [tuple(e.values()) for e in many]
        )
        few = [(each["key"], record) for each in many if int(each["trial"]) < 40]
        database.executemany("INSERT INTO records VALUES (?, ?)", few)
    database.close()
    assert report().code == 0
    text = Path("report.html").read_text(encoding="utf-8")
    assert "Report on 100,000 runs" in text
    assert re.search(r"Not listed: 9,\d{3} more trials", text)
    assert re.search(r"Not listed: \d+ more runs", text)
    assert len(text) < 2_000_000


# The browser


def test_a_method_is_switched_off_in_all_panels_and_on_again(page, visit):
    seen = visit(page)
    seen.see("#curves-two-bit")
    button = seen.page.locator("#curves-two-bit .legend button", has_text="IRMv1")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    for chart in seen.visible("#curves-two-bit"):
        assert [on for name, on in chart if name == "IRMv1"] == [False, False]  # the curve and its band
        assert all(on for name, on in chart if name != "IRMv1")
    button.focus()
    seen.page.keyboard.press("Enter")
    assert all(on for chart in seen.visible("#curves-two-bit") for _, on in chart)
    button.click(modifiers=["Shift"])
    assert {name for chart in seen.visible("#curves-two-bit") for name, on in chart if on} == {"IRMv1"}
    assert seen.wrong == []


def test_a_table_is_sorted_by_mouse_and_by_keyboard(page, visit):
    seen = visit(page)
    seen.unfold("#runs")
    head = seen.page.locator("#trials thead th", has_text="average")
    values = "cells => cells.map(c => Number(c.dataset.value))"
    averages = seen.page.locator("#trials tbody tr td:nth-child(6)[data-value]")
    head.locator("button").click()
    falling = averages.evaluate_all(values)
    assert head.get_attribute("aria-sort") == "descending"
    assert falling == sorted(falling, reverse=True)
    assert len(set(falling)) > 1
    head.locator("button").focus()
    seen.page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert averages.evaluate_all(values) == sorted(falling)
    label = seen.page.locator("#trials thead th", has_text="method")
    label.locator("button").click()
    labels = seen.page.locator("#trials tbody th").all_text_contents()
    assert labels == sorted(labels, key=str.lower)
    assert head.get_attribute("aria-sort") is None
    assert seen.wrong == []


def test_rows_are_filtered_by_words(report, store, trained, visit):
    kept = Store(store)
    for arm in STUDIES["table-4"]().arms("smoke"):
        kept.add(replace(trained["irmv1"], spec=arm.spec, status="finished"))
    kept.close()
    report()
    seen = visit(Path("report.html"))
    seen.unfold("#runs")
    seen.page.locator("#trials .filter input").fill("two-bit rex")
    assert seen.page.locator("#trials tbody tr:visible").count() == 1
    seen.page.locator("#trials .filter input").fill("")
    assert seen.page.locator("#trials tbody tr:visible").count() > 20


def test_it_fits_any_screen_in_light_and_dark(report, hostile_store, visit):
    report("--title", HOSTILE, "--note", HOSTILE)
    for width, scheme in ((390, "dark"), (1280, "light")):
        seen = visit(Path("report.html"), width, scheme)
        charts = seen.page.locator(".chart")
        for index in range(charts.count()):
            charts.nth(index).scroll_into_view_if_needed()
            charts.nth(index).locator(".main-svg").first.wait_for()
        assert seen.overflow() <= 0, (width, scheme)
        paper = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
        assert seen.wrong == []


def test_names_of_others_are_shown_as_they_are(report, hostile_store, visit):
    report("--title", HOSTILE, "--note", HOSTILE)
    seen = visit(Path("report.html"))
    assert seen.page.title() == HOSTILE
    assert seen.page.locator("h1").inner_text() == HOSTILE
    article = seen.page.locator("article.figure", has_text=f"Accuracy in {HOSTILE} data")
    article.scroll_into_view_if_needed()
    article.locator(".main-svg").first.wait_for()
    ticks = article.locator(".xtick text").all_text_contents()
    assert ticks == [f"{HOSTILE[:11]}…{f'{HOSTILE} one'[-12:]}", "<b>two</b>"]
    assert seen.page.locator("img").count() == 0
    failures = seen.page.locator("#failed-runs")
    failures.scroll_into_view_if_needed()
    assert HOSTILE in failures.inner_text()
    assert seen.wrong == []


def test_the_reader_may_choose_light_or_dark(page, visit):
    seen = visit(page, scheme="light")
    seen.see("#curves-two-bit")
    script = "c => [c.data.find(t => t.meta === 'ERM' && t.line).line.color, c.layout.font.color]"
    before = seen.page.locator("#curves-two-bit .chart").first.evaluate(script)
    seen.page.locator("#theme").click()
    after = seen.page.locator("#curves-two-bit .chart").first.evaluate(script)
    assert before == ["#1c1c1c", "#1c1c1c"]
    assert after == ["#e8e8e6", "#e8e8e6"]  # ERM is drawn in ink
    assert seen.wrong == []


def test_no_button_of_a_chart_would_send_it_anywhere(page, visit):
    seen = visit(page)
    seen.see("#curves-two-bit")
    chart = seen.page.locator("#curves-two-bit .chart").first
    chart.hover()
    titles = chart.locator(".modebar-btn").evaluate_all("all => all.map(b => b.dataset.title)")
    assert [title.split()[0] for title in titles] == ["Download", "Zoom", "Pan", "Reset"]
    with seen.page.expect_download() as download:
        chart.locator(".modebar-btn").first.click()
    assert download.value.path().stat().st_size > 5000
    assert seen.wrong == []


def test_charts_follow_the_system_from_light_to_dark(page, visit):
    seen = visit(page, scheme="light")
    seen.see("#curves-two-bit")
    seen.page.emulate_media(color_scheme="dark")
    chart = seen.page.locator("#curves-two-bit .chart").first
    assert chart.evaluate("c => c.layout.font.color") == "#e8e8e6"


def test_it_prints_every_chart_on_white(page, visit):
    seen = visit(page, scheme="dark")
    seen.see("#figure-2")
    seen.page.evaluate("""addEventListener("beforeprint", () => {
        window.printed = [...document.querySelectorAll(".chart")].map(c => c.layout && c.layout.font.color);
    })""")
    seen.page.pdf(path="report.pdf", format="A4")
    assert Path("report.pdf").stat().st_size > 50_000
    assert set(seen.page.evaluate("window.printed")) == {"#1c1c1c"}
    assert seen.page.evaluate("document.documentElement.dataset.theme") is None
    assert seen.wrong == []


# Versions, contents and anchors


@pytest.fixture(scope="module")
def two_scales(trained, invariance, tmp_path_factory) -> Path:
    """Table 4 and Figure 2 at one scale, with seeds that collapsed, and a single run at another."""
    folder = tmp_path_factory.mktemp("scales")
    with Store(folder / "runs.db") as kept:
        for study in ("table-4", "figure-2"):
            for place, arm in enumerate(STUDIES[study]().arms("smoke")):
                runs = list(trained.values())
                for seed in range(3):
                    run = replace(runs[(place + seed) % 3], spec=arm.spec.with_seed(seed), status="finished")
                    gone = tuple(replace(c, collapsed=True) for c in run.history)
                    kept.add(replace(run, status="collapsed", history=gone) if seed == 2 else run)
        kept.add(replace(trained["rex"], spec=STUDIES["table-4"]().arms("quick")[1].spec))
    invariance("report", "--store", folder / "runs.db", "-o", folder / "report.html")
    return folder / "report.html"


def chosen(seen, block: str, **options: str) -> None:
    """Choose options of a block and wait until they are shown."""
    form = seen.page.locator(f"#block-{block} .switches")
    for choice, option in options.items():
        script = "(form) => new Promise((done) => form.addEventListener('shown', done, {once: true}))"
        handle = form.evaluate_handle(f"(form) => ({{ shown: ({script})(form) }})")
        form.locator(f"select[data-choice={choice}]").select_option(option)
        handle.evaluate("(waiting) => waiting.shown.then(() => true)")


def test_scale_rule_and_seeds_are_switched(two_scales, visit):
    seen = visit(two_scales)
    table = seen.page.locator("#table-4")
    whole = table.text_content()
    assert "scale smoke" in whole
    assert "checkpoint: invariant" in whole
    assert table.locator("tbody .warn", has_text="1 collapsed").count() == 64
    assert table.locator("tbody .seeds", has_text="n = 2").count() == 64
    chosen(seen, "table-4", checkpoint="oracle (has seen test data)")
    assert "checkpoint: oracle (has seen test data)" in table.text_content()
    chosen(seen, "table-4", seeds="all, collapsed included")
    assert "3 seeds, collapsed ones included" in table.text_content()
    assert table.locator("tbody .seeds", has_text="n = 3").count() == 64
    other = seen.page.locator("#block-table-4 select[data-choice=scale] option").nth(1).inner_text()
    chosen(seen, "table-4", scale=other)
    assert table.locator("tbody td[data-value]").count() == 2  # the average and the gap of one run
    assert "no run yet" in table.text_content()
    chosen(seen, "table-4", scale="smoke", checkpoint="invariant", seeds="finished")
    assert table.text_content() == whole
    head = table.locator("thead th button").first
    head.click()  # a table that came later is sorted, too
    assert table.locator("thead th[aria-sort]").count() == 1
    assert seen.wrong == []


def test_a_rule_is_chosen_for_the_whole_page(two_scales, visit):
    seen = visit(two_scales)
    seen.page.locator("#summary .switches select").first.select_option("last")
    for article in ("#table-4", "#figure-2", "#curves-colored-mnist"):
        seen.page.locator(article, has_text="checkpoint: last").wait_for()
    seen.see("#figure-2")
    assert seen.wrong == []


def test_pointing_at_a_method_shows_it_alone(two_scales, visit):
    seen = visit(two_scales)
    seen.see("#curves-colored-mnist")
    button = seen.page.locator("#curves-colored-mnist .legend button", has_text="REx")
    button.hover()
    script = "c => c.data.map(t => [t.meta, t.mode, t.opacity])"
    chart = seen.page.locator("#curves-colored-mnist .chart").first
    opacity = {(name, mode): value for name, mode, value in chart.evaluate(script)}
    assert opacity["REx", "lines+markers"] == 1
    assert {value for (name, _), value in opacity.items() if name != "REx"} <= {0, 0.15}
    seen.page.locator("h1").hover()
    assert {value for _, mode, value in chart.evaluate(script) if mode != "none"} == {1}
    assert seen.wrong == []


def test_a_point_says_its_value_under_the_pointer(two_scales, visit):
    seen = visit(two_scales)
    seen.see("#figure-2")
    chart = seen.page.locator("#figure-2 .chart").first
    box = chart.locator(".nsewdrag").first.bounding_box()
    seen.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    chart.locator(".hoverlayer text").first.wait_for()
    assert "IRMv1" in " ".join(chart.locator(".hoverlayer text").all_text_contents())
    assert seen.wrong == []


def test_headings_have_anchors_and_the_contents_follow(two_scales, visit):
    seen = visit(two_scales)
    for anchor in seen.page.locator("main h3 .anchor").all():
        assert anchor.is_visible()
    seen.page.locator("#contents > summary").click()
    link = seen.page.locator("#contents a", has_text="Table 4: large and small batches").first
    link.click()
    assert seen.page.evaluate("location.hash") == "#table-4"
    seen.page.locator("#here", has_text="Table 4: large and small batches").wait_for()
    assert link.get_attribute("aria-current") == "true"
    seen.page.locator("#curves-colored-mnist .anchor").click()
    assert seen.page.evaluate("location.hash") == "#curves-colored-mnist"
    seen.page.locator("#here", has_text="Accuracy in Colored-MNIST").wait_for()
    assert link.get_attribute("aria-current") is None
    assert seen.wrong == []


def test_long_data_are_there_when_they_are_opened(two_scales, visit):
    seen = visit(two_scales)
    assert seen.page.locator("#table-4-seeds").count() == 0
    seen.unfold("#seeds")
    assert seen.page.locator("#table-4-seeds tbody tr").count() == 32 * 3
    seen.unfold("#histories")
    seen.page.locator("#histories article .main-svg").first.wait_for()
    assert seen.wrong == []


@pytest.mark.parametrize("width", [1280, 390])
def test_a_table_that_is_cut_off_shows_it(two_scales, visit, width):
    seen = visit(two_scales, width)
    assert seen.overflow() <= 0
    part = seen.page.locator("#table-4 .scroll").first
    wider = part.evaluate("box => box.scrollWidth > box.clientWidth")
    assert wider == (width == 390)  # Table 4 fits into an ordinary window
    assert "linear-gradient" in part.evaluate("box => getComputedStyle(box).backgroundImage")  # the shadow at its edge
