"""From a real store to a page. Runs of studies are two-bit runs under the study's spec: a report never trains."""

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean

import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

from invariance.core.artefacts import Lines
from invariance.core.errors import BadValue, UnknownName
from invariance.core.one_look import one_look
from invariance.experiments.run import Run, execute
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store
from invariance.experiments.stored_runs import StoredRuns
from invariance.methods import METHODS
from invariance.recipes.presets import PRESETS
from invariance.report.citation import citations
from invariance.report.html_page import render
from invariance.report.page import Chapter, Choice
from invariance.report.study_blocks import Asked
from invariance.report.study_report import collect
from invariance.studies import STUDIES
from invariance.studies.support.completeness import plans_with_runs
from invariance.studies.support.printed import everything
from invariance.studies.support.scales import SCALES

SMALL = {"data": {"samples": 100}, "recipe": {"epochs": 4, "batch_size": 50}, "evaluation": {"checkpoints": 2}}


@cache
def made(method: str = "irmv1", gamma: float | None = None) -> Run:
    """A real run."""
    fields = SMALL if gamma is None else SMALL | {"method": {"gamma": gamma}}
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
    with one_look():
        for arm in STUDIES[study]().arms(scale):
            for seed in range(seeds):
                if arm.spec:
                    store.add(under(arm.spec.with_seed(seed)))


def chapter(page, name: str):
    """A chapter of a page; one without artefacts where the page has none of this name."""
    return next((found for found in page.chapters if found.name == name), Chapter(name, ""))


def names(page) -> list[str]:
    """What the page shows of studies: the paper's first, then ours."""
    return [artefact.name for part in ("paper", "ours") for artefact in chapter(page, part).shown()]


def curves_of(page):
    """The first version of every figure of accuracies over environments."""
    return list(chapter(page, "curves").shown())


def provenance(page, name: str) -> str:
    return next(artefact.provenance for artefact in page.artefacts() if artefact.name == name)


def test_an_empty_store_shows_what_needs_no_runs(store):
    page = collect(store)
    assert names(page) == ["audit-impossible", "audit-floor", "audit-disagreements", "audit-repeats"]
    assert page.title == "Report on 0 runs"
    assert [found.name for found in page.chapters] == ["ours", "failures"]
    assert chapter(page, "failures").words == ("None: every run finished.",)
    render(page)


def block(page, name: str):
    return next(b for c in page.chapters for b in c.blocks if b.name == name)


def test_a_study_is_shown_at_its_most_complete_scale_with_the_others_beside_it(store):
    fill(store, "table-4", "smoke", 1)
    shown = names(collect(store))
    assert "table-4" in shown
    assert shown[-1].startswith("audit")  # what needs no runs comes last
    assert provenance(collect(store), "table-4").startswith("scale smoke")
    store.add(under(STUDIES["table-4"]().arms("quick")[1].spec))  # one run of another scale hides nothing
    page = collect(store)
    assert provenance(page, "table-4").startswith("scale smoke")
    scales = next(choice.options for choice in block(page, "table-4").choices if choice.name == "scale")
    assert (scales[0], len(scales)) == ("smoke", 2)
    fill(store, "table-4", "full", 1)
    assert provenance(collect(store), "table-4").startswith("scale full")  # as complete, and larger
    assert provenance(collect(store, ("table-4",), scale="smoke"), "table-4").startswith("scale smoke")


def test_runs_that_two_scales_share_are_shown_at_the_one_with_whole_data_sets(store):
    fill(store, "table-4", "ours", seeds=1)
    fill(store, "table-5", "ours-small", seeds=1)  # so that more was run at the scale with smaller versions
    studies = [STUDIES[name]() for name in ("table-4", "table-5")]
    plans = plans_with_runs(studies, StoredRuns(store))
    assert [(plan.scale, plan.alike) for plan in plans["table-4"]] == [("ours", ("ours-small",))]


def test_runs_that_several_scales_share_are_labelled_by_all_of_them_and_by_their_recipe(store):
    fill(store, "parts", "quick", 1)
    said = provenance(collect(store), "parts")
    shared = "scales quick, ours-small, debiased, ours, full, which share these runs · recipes debiased, two-phase ·"
    assert said.startswith(shared)
    assert SCALES["full"].about not in said


def test_a_run_is_labelled_by_what_its_recipe_was_changed_to(store):
    fill(store, "figure-2", "smoke")
    assert "· recipe full-batch (epochs 2) ·" in provenance(collect(store), "figure-2")


def test_the_paper_comes_first_and_in_its_order(store):
    for study in ("parts", "table-a5", "figure-a2", "table-4", "figure-1"):
        store.add(under(STUDIES[study]().arms("smoke")[0].spec))
    blocks = [b.name for part in ("paper", "ours") for b in chapter(collect(store), part).blocks]
    order = ["figure-1", "table-4", "figure-a2", "table-a5", "parts", "audit"]
    assert [name for name in blocks if name in order] == order


def test_every_rule_can_be_chosen_and_the_one_asked_for_comes_first(store):
    fill(store, "table-a5", "smoke")
    own = block(collect(store, asked=Asked("last")), "table-a5")
    rules = ("last", "invariant", "training-domain", "oracle (has seen test data)")
    assert own.choices == (Choice("checkpoint", rules),)
    assert {table.provenance.partition("checkpoint: ")[2] for (table, *_) in own.versions.values()} == {*rules}


def test_collapsed_seeds_are_counted_and_averaged_on_request(store):
    erm = STUDIES["table-a5"]().arms("smoke")[0].spec
    store.add(under(erm))
    gone = tuple(replace(c, collapsed=True) for c in made().history)
    store.add(replace(under(erm.with_seed(1)), status="collapsed", history=gone))
    own = block(collect(store, asked=Asked("last")), "table-a5")
    assert own.choices[-1] == Choice("seeds", ("finished", "all, collapsed included"))
    finished, every = (own.versions["last", seeds][0].lines[0].cells[0] for seeds in own.choices[-1].options)
    assert (len(finished.ours), finished.seeds, finished.collapsed) == (1, 2, 1)
    assert (len(every.ours), every.seeds, every.collapsed) == (2, 2, 1)
    first = block(collect(store, asked=Asked("last", with_collapsed=True)), "table-a5").first
    assert len(first[0].lines[0].cells[0].ours) == 2


def test_a_rule_that_the_runs_were_not_measured_for_is_not_offered(store):
    erm = STUDIES["table-a5"]().arms("smoke")[0].spec
    old = tuple(replace(c, homogeneity=None) for c in made().history)
    store.add(replace(under(erm), history=old))
    own = block(collect(store, asked=Asked("last")), "table-a5")
    assert own.choices == (Choice("checkpoint", ("last", "training-domain", "oracle (has seen test data)")),)
    with pytest.raises(BadValue, match="did not compare environments"):
        collect(store)


def test_stored_runs_are_shown_where_their_data_are_not(store, tmp_path, monkeypatch):
    pacs = next(a.spec for a in STUDIES["table-5"]().arms("smoke") if a.data == "PACS")
    store.add(under(pacs))
    for folder in (tmp_path / "none", tmp_path / "some"):
        (folder / "PACS/photo/dog").mkdir(parents=True)
    (tmp_path / "some/PACS/photo/dog/1.jpg").touch()
    for data in ("none", "some"):  # no data, and other data than the runs were made with
        monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path / data))
        (table, *_) = block(collect(store), "table-5").first
        cells = [cell for line in table.lines for cell in line.cells]
        assert sum(bool(cell.ours) for cell in cells) == 2
        assert {cell.note for cell in cells} == {"", "no run yet"}


def test_every_seed_is_listed_with_its_key(store):
    fill(store, "table-a5", "smoke")
    (table,) = chapter(collect(store), "seeds").artefacts
    keys = {line.cells[-1] for line in table.lines}
    assert keys == {run.key for run in store.summaries()}
    assert [c.name for c in table.columns][:5] == ["data", "setting", "recipe", "scale", "selection"]
    assert chapter(collect(store), "seeds").folded


def test_variants_of_a_method_are_told_apart_among_all_runs(store):
    for arm in STUDIES["table-a3"]().arms("smoke"):
        if arm.data == "Colored-MNIST":
            store.add(under(arm.spec))
    (table,) = chapter(collect(store), "runs").artefacts
    labels = [line.label for line in table.lines]
    assert len(set(labels)) == len(labels)
    assert {"BLOC-IRM, penalty = irmv1", "BLOC-IRM, penalty = rex"} <= set(labels)


def test_a_study_that_is_asked_for_is_shown_without_runs_too(store):
    page = collect(store, ("table-4",))
    assert names(page) == ["table-4"]
    assert page.summary[0].lines[0].cells[1] == "0 of 32"
    assert not page.chapters[0].blocks[0].choices  # there is nothing to choose between


def test_curves_and_histories_of_a_study_come_once(store):
    fill(store, "figure-2", "smoke")
    page = collect(store, ("figure-2",))
    (curves,) = curves_of(page)
    (panel,) = curves.panels
    assert panel.title == "large batch · full-batch (epochs 2)"
    assert [curve.label for curve in panel.curves] == ["IRMv1", "IRM-Game", "Fishr"]
    assert panel.curves[0].x == tuple(pytest.approx(i / 20) for i in range(1, 20))
    assert panel.curves[0].low == panel.curves[0].high  # all seeds are the same run
    (history,) = chapter(page, "histories").artefacts
    assert [p.title for p in history.panels][:2] == ["average over test environments", "gap over test environments"]


def test_runs_of_no_study_are_drawn_by_data_and_recipe(store):
    for method in ("erm", "irmv1"):
        for seed in range(2):
            run = made(method)
            store.add(under(run.spec.with_seed(seed), run))
    page = collect(store)
    (curves,) = curves_of(page)
    assert curves.title == "Accuracy in Two-Bit"
    assert isinstance(curves.panels[0], Lines)
    assert [curve.label for curve in curves.panels[0].curves] == ["ERM", "IRMv1"]
    assert {line.label for line in chapter(page, "methods").artefacts[0].lines} == {"ERM", "IRMv1"}
    assert dict(page.facts)["runs"] == "4"
    assert not curves_of(collect(store, ("audit",)))  # only what was asked for


def test_trials_of_one_method_are_told_apart_by_what_differs(store):
    for gamma in (10.0, 100.0):
        store.add(under(made("irmv1", gamma).spec, made("irmv1", gamma)))
    (curves,) = curves_of(collect(store))
    assert {c.label for c in curves.panels[0].curves} == {"IRMv1, gamma = 10.0", "IRMv1, gamma = 100.0"}


def test_runs_that_went_wrong_are_named_worst_first(store):
    spec = made().spec
    store.add(replace(made(), spec=spec.with_seed(1), status="collapsed", reason="constant"))
    store.add(Run(spec.with_seed(2), "diverged", (), 1.0, "the loss is nan"))
    store.add(Run(spec.with_seed(3), "failed", (), 1.0, "it broke"))
    page = collect(store)
    (table,) = chapter(page, "failures").artefacts
    assert [line.cells[2:5] for line in table.lines] == [
        (3, "failed", "it broke"),
        (2, "diverged", "the loss is nan"),
        (1, "collapsed", "constant"),
    ]
    assert (table.lines[0].label, table.lines[0].cells[0]) == ("IRMv1", "Two-Bit")
    assert dict(page.facts)["finished"] == "0"


def test_many_failures_are_counted_and_not_all_listed(store):
    for seed in range(205):
        store.add(Run(made().spec.with_seed(seed), "failed", (), 1.0, "it broke"))
    failures = chapter(collect(store), "failures")
    assert len(failures.artefacts[0].lines) == 200
    assert failures.left_out.startswith("Not listed: 5 more runs")


def test_the_arms_of_a_study_are_built_once_for_a_scale(store, monkeypatch):
    """A contract on cost: building them all again for each part of a page took thousands of specs."""
    fill(store, "table-4", "smoke", 1)
    built: Counter[tuple[str, str]] = Counter()

    def counted(cls):
        def arms(self, scale, original=cls.arms):
            built[self.name, scale] += 1
            return original(self, scale)

        return arms

    for cls in STUDIES.classes.values():
        monkeypatch.setattr(cls, "arms", counted(cls))
    render(collect(store))
    assert built.keys() >= {("table-4", "smoke"), ("table-4", "full"), ("audit", "full")}
    assert set(built.values()) == {1}


def test_the_overview_says_how_far_we_are_from_the_printed_numbers(store):
    fill(store, "table-4", "smoke", 1)
    (overview,) = collect(store, ("table-4",)).summary
    scale, filled, seeds, *distances = overview.lines[0].cells
    assert (scale, filled, seeds) == ("smoke", "32 of 32", "32 of 32")
    assert [c.group for c in overview.columns[3:]] == ["average"] * 3 + ["gap"] * 3
    test = made().history[-1].test
    for (many, far, farthest), metric, score in zip(
        (distances[:3], distances[3:]), ("average", "gap"), (test.mean, test.gap), strict=True
    ):
        own = [abs(100 * score - n.mean) for p, n in everything().items() if (p.study, p.metric) == ("table-4", metric)]
        assert many == len(own) == 32
        assert (far.mean, farthest.mean) == pytest.approx((fmean(own), max(own)))


def test_what_runs_were_made_with_is_on_the_page(store):
    store.add(made())
    (table,) = chapter(collect(store), "provenance").artefacts
    assert [line.label for line in table.lines] == ["1 run"]
    assert {"torch", "cores"} <= {column.name for column in table.columns}


def test_a_run_of_a_method_that_is_gone_is_listed_and_not_drawn(store):
    store.add(under(made().spec))
    store.connection.execute("UPDATE runs SET method = 'lost'")
    store.connection.execute('UPDATE records SET record = replace(record, \'"name": "irmv1"\', \'"name": "lost"\')')
    page = collect(store)
    assert not curves_of(page)
    assert "1 more trials" in chapter(page, "curves").left_out
    assert chapter(page, "runs").artefacts[0].lines[0].label == "lost"
    render(page)


def test_studies_scales_and_rules_that_do_not_exist_are_refused(store):
    with pytest.raises(UnknownName, match="Did you mean 'table-4'"):
        collect(store, ("table4",))
    with pytest.raises(UnknownName, match="Did you mean 'smoke'"):
        collect(store, scale="smok")
    with pytest.raises(UnknownName, match="Did you mean 'oracle'"):
        collect(store, asked=Asked("orakel"))
    with pytest.raises(BadValue, match="hold environments out"):
        collect(store, ("table-4",), asked=Asked("leave-one-environment-out"))


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
    (table,) = chapter(collect(store), "methods").artefacts
    rex = METHODS["rex"]
    assert [(line.label, line.cells) for line in table.lines] == [(rex.title, (rex.formula, rex.citation, rex.differs))]


def test_recipes_of_the_runs_and_scales_of_the_studies_say_where_they_differ_from_the_paper(store):
    fill(store, "table-3", "full", 1)
    own = chapter(collect(store, ("table-3",), scale="full"), "recipes")
    assert own.words == (f"Where the studies differ from the paper: {' '.join(SCALES['full'].differs)}",)
    (table,) = own.artefacts
    remedies = ("full-batch", "small-batch", "lsgd", "lalr", "sam")
    assert [(line.label, line.cells) for line in table.lines] == [
        (name, (PRESETS[name].about, PRESETS[name].differs)) for name in remedies
    ]


def test_a_recipe_of_another_version_is_left_out_of_the_recipes(store):
    store.add(replace(made("rex"), spec=replace(made("rex").spec, recipe_name="gone+paper")))
    (table,) = chapter(collect(store), "recipes").artefacts
    assert [line.label for line in table.lines] == ["small-batch"]
