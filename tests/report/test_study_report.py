"""From a real store to a page. Runs of studies are two-bit runs under the study's spec: a report never trains."""

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("plotly", reason="needs plotly: pip install 'invariance[report]'")

from invariance.core.artefacts import Lines
from invariance.core.errors import BadValue, UnknownName
from invariance.experiments.run import Run, execute
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store
from invariance.methods import METHODS
from invariance.report.citation import citations
from invariance.report.page import render
from invariance.report.study_report import Wish, collect
from invariance.studies import STUDIES

SMALL = {"data": {"samples": 100}, "recipe": {"epochs": 4, "batch_size": 50}, "evaluation": {"checkpoints": 2}}


@cache
def made(method: str = "irmv1", gamma: float | None = None) -> Run:
    """A real run."""
    fields = SMALL if gamma is None else SMALL | {"objective": {"gamma": gamma}}
    return execute(Spec.of("two-bit", method, "short", changes=fields)).run


def under(spec: Spec, run: Run | None = None, **fields) -> Run:
    """The same run as if another spec had given it."""
    return replace(run or made(), spec=spec, status="finished", reason="", **fields)


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path / "runs.db")
    yield opened
    opened.close()


def fill(store: Store, study: str, scale: str, seeds: int = 2) -> None:
    for arm in STUDIES[study]().arms(scale):
        for seed in range(seeds):
            if arm.spec:
                store.add(under(arm.spec.with_seed(seed)))


def names(page) -> list[str]:
    return [section.name for section in page.sections]


def test_an_empty_store_shows_what_needs_no_runs(store):
    page = collect(store, Wish())
    assert names(page) == ["audit"]
    assert page.title == "Report on 0 runs"
    assert (page.curves, page.histories, page.runs, page.troubles, page.methods, page.provenances) == ((),) * 6
    render(page)


def test_a_study_is_shown_at_the_largest_scale_that_has_runs(store):
    fill(store, "figure-2", "smoke")
    shown = names(collect(store, Wish()))
    assert "figure-2" in shown
    assert shown[-1] == "audit"  # what needs no runs comes last
    (first,) = [s for s in collect(store, Wish()).sections if s.name == "figure-2"]
    assert first.artefacts[0].provenance.startswith("scale smoke")
    fill(store, "figure-2", "full", 1)
    (second,) = [s for s in collect(store, Wish()).sections if s.name == "figure-2"]
    assert second.artefacts[0].provenance.startswith("scale full")
    (third,) = collect(store, Wish(("figure-2",), "smoke")).sections
    assert third.artefacts[0].provenance.startswith("scale smoke")


def test_a_study_that_is_asked_for_is_shown_without_runs_too(store):
    page = collect(store, Wish(("table-4",)))
    assert names(page) == ["table-4"]
    assert page.summary[0].lines[0].cells[1] == "0 of 32"


def test_curves_and_histories_of_a_study_come_once(store):
    fill(store, "figure-2", "smoke")
    page = collect(store, Wish(("figure-2",)))
    (curves,) = page.curves
    (panel,) = curves.panels
    assert panel.title == "large batch, smoke"
    assert [curve.label for curve in panel.curves] == ["IRMv1", "IRM-Game", "Fishr"]
    assert panel.curves[0].x == tuple(pytest.approx(i / 20) for i in range(1, 20))
    assert panel.curves[0].low == panel.curves[0].high  # all seeds are the same run
    (history,) = page.histories
    assert [p.title for p in history.panels][:2] == ["average over test environments", "gap over test environments"]


def test_runs_of_no_study_are_drawn_by_data_and_recipe(store):
    for method in ("erm", "irmv1"):
        for seed in range(2):
            run = made(method)
            store.add(under(run.spec.with_seed(seed), run))
    page = collect(store, Wish())
    (curves,) = page.curves
    assert curves.title == "Accuracy in Two-Bit"
    assert isinstance(curves.panels[0], Lines)
    assert [curve.label for curve in curves.panels[0].curves] == ["ERM", "IRMv1"]
    assert {method.title for method in page.methods} == {"ERM", "IRMv1"}
    assert dict(page.facts)["runs"] == "4"
    assert not collect(store, Wish(("audit",))).curves  # only what was asked for


def test_trials_of_one_method_are_told_apart_by_what_differs(store):
    for gamma in (10.0, 100.0):
        store.add(under(made("irmv1", gamma).spec, made("irmv1", gamma)))
    (curves,) = collect(store, Wish()).curves
    assert {c.label for c in curves.panels[0].curves} == {"IRMv1, gamma = 10.0", "IRMv1, gamma = 100.0"}


def test_runs_that_went_wrong_are_named_worst_first(store):
    spec = made().spec
    store.add(replace(made(), spec=spec.with_seed(1), status="collapsed", reason="constant"))
    store.add(Run(spec.with_seed(2), "diverged", (), 1.0, "the loss is nan"))
    store.add(Run(spec.with_seed(3), "failed", (), 1.0, "it broke"))
    page = collect(store, Wish())
    assert [(t.status, t.reason, t.seed) for t in page.troubles] == [
        ("failed", "it broke", 3),
        ("diverged", "the loss is nan", 2),
        ("collapsed", "constant", 1),
    ]
    assert (page.troubles[0].method, page.troubles[0].data) == ("IRMv1", "Two-Bit")
    assert dict(page.facts)["finished"] == "0"


def test_many_troubles_are_counted_and_not_all_listed(store):
    for seed in range(205):
        store.add(Run(made().spec.with_seed(seed), "failed", (), 1.0, "it broke"))
    page = collect(store, Wish())
    assert len(page.troubles) == 200
    assert page.troubles_left_out.startswith("Not listed: 5 more runs")


def test_the_overview_says_how_far_we_are_from_the_printed_numbers(store):
    fill(store, "table-4", "smoke", 1)
    (overview,) = collect(store, Wish(("table-4",))).summary
    scale, filled, many, far, farthest = overview.lines[0].cells
    assert (scale, filled, many) == ("smoke", "32 of 32", 64)
    assert farthest.mean >= far.mean >= 0
    assert not math.isnan(far.mean)


def test_what_runs_were_made_with_is_on_the_page(store):
    store.add(made())
    (provenance,) = collect(store, Wish()).provenances
    assert provenance.runs == 1
    assert "torch" in provenance.versions
    assert "cores" in provenance.machine


def test_a_run_of_a_method_that_is_gone_is_listed_and_not_drawn(store):
    store.add(under(made().spec))
    store.connection.execute("UPDATE runs SET method = 'lost'")
    store.connection.execute('UPDATE records SET record = replace(record, \'"name": "irmv1"\', \'"name": "lost"\')')
    page = collect(store, Wish())
    assert not page.curves
    assert "1 more trials" in page.curves_left_out
    assert page.runs[0].lines[0].label == "lost"
    render(page)


def test_wishes_that_cannot_be_met_are_refused(store):
    with pytest.raises(UnknownName, match="Did you mean 'table-4'"):
        collect(store, Wish(("table4",)))
    with pytest.raises(UnknownName, match="Did you mean 'smoke'"):
        collect(store, Wish((), "smok"))
    with pytest.raises(UnknownName, match="Did you mean 'oracle'"):
        collect(store, Wish(selection="orakel"))
    with pytest.raises(BadValue, match="hold environments out"):
        collect(store, Wish(("table-4",), selection="leave-one-environment-out"))


def test_how_to_cite_agrees_with_the_citation_file():
    known = (Path(__file__).parents[2] / "CITATION.cff").read_text(encoding="utf-8")
    software, paper = citations()
    for field in ("title", "version", "license"):
        value = software.split(f"{field:<7} = {{")[1].split("}")[0]
        assert f'{field}: "{value}"' in known or f"{field}: {value}" in known
    plain = paper.replace("{IRM}", "IRM").replace("{Challenges}", "Challenges")
    assert "What Is Missing in IRM Training and Evaluation? Challenges and Solutions" in plain
    assert "What Is Missing in IRM Training and Evaluation? Challenges and Solutions" in known


def test_every_method_is_given_its_formula_and_citation(store):
    store.add(under(made("rex").spec, made("rex")))
    (method,) = collect(store, Wish()).methods
    assert (method.title, method.formula, method.citation) == (
        METHODS["rex"].title,
        METHODS["rex"].formula,
        METHODS["rex"].citation,
    )
