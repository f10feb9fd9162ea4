"""Methods of a user's choice as a study: what is run, and the table and curves that it gives."""

import pytest

from invariance.core.artefacts import Lines, Quantity, Sparkline
from invariance.core.errors import BadValue
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store
from invariance.experiments.stored_runs import StoredRuns
from invariance.studies.support.comparison import Comparison
from invariance.studies.support.results import held_out, results, specs

LEAVE_OUT = "leave-one-environment-out"


def spec(method: str, recipe: str = "short", **data) -> Spec:
    return Spec.of("two-bit", method, recipe, changes={"data": {"samples": 20} | data})


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "runs.db") as opened:
        yield opened


def compared(store: Store, *methods: Spec, selection: str = "last", seeds: range | None = None):
    plan = Comparison(methods).plan("full")
    found = results(plan, StoredRuns(store), selection, seeds=seeds)
    return found, *plan.study.show(found)


def test_every_method_is_run_with_every_seed():
    plan = Comparison([spec("erm"), spec("irmv1")]).plan("full")
    needed = specs(plan, 2, first_seed=3)
    assert [(s.method_name, s.seed) for s in needed] == [("erm", 3), ("erm", 4), ("irmv1", 3), ("irmv1", 4)]


@pytest.mark.parametrize("selection", ["last", "training-domain", "oracle", "invariant"])
def test_most_rules_ask_for_no_extra_runs(selection):
    assert held_out([spec("rex")], selection) == []


def test_of_three_environments_each_is_left_out_once():
    own = spec("rex", betas=[0.1, 0.2, 0.3])
    extra = held_out([own], LEAVE_OUT)
    assert [run.hold_out for run in extra] == ["β=0.1", "β=0.2", "β=0.3"]
    assert {(run.method, run.recipe, run.seed) for run in extra} == {(own.method, own.recipe, own.seed)}


def test_leaving_one_of_two_environments_out_is_refused_in_one_line():
    with pytest.raises(BadValue) as caught:
        held_out([spec("rex")], LEAVE_OUT)
    message = str(caught.value)
    assert "\n" not in message
    assert "needs at least three" in message
    assert "take another rule" in message


def test_every_method_has_its_own_line_in_the_order_given(store, run):
    methods = [spec("rex"), spec("erm"), spec("irmv1")]
    for i, own in enumerate(methods):
        for seed in (0, 1):
            store.add(run(own.with_seed(seed), 0.3 + 0.1 * i + 0.01 * seed))
    _, table, figure = compared(store, *methods)
    assert table.title == "Two-Bit · recipe short · seeds 0–1 · checkpoint: last"
    assert [line.label for line in table.lines] == ["REx", "ERM", "IRMv1"]
    assert [line.cells[0].ours for line in table.lines] == [pytest.approx((30 + 10 * i, 31 + 10 * i)) for i in range(3)]
    *scores, bars, seconds = table.lines[0].cells
    assert all(isinstance(score, Quantity) for score in scores)
    assert isinstance(bars, Sparkline)
    assert len(bars.values) == 19
    assert seconds == 1.0
    (panel,) = figure.panels
    assert isinstance(panel, Lines)
    assert [curve.label for curve in panel.curves] == ["REx", "ERM", "IRMv1"]


def test_only_the_seeds_that_were_asked_for_count(store, run):
    own = spec("erm")
    for seed in range(4):
        store.add(run(own.with_seed(seed), 0.1 * (seed + 1)))
    found, table, _ = compared(store, own, seeds=range(1, 3))
    assert table.lines[0].cells[0].ours == pytest.approx((20, 30))
    assert [row.to_json()["first_seed"] for row in found.rows.values()] == [1]


def test_a_run_that_was_made_under_another_name_of_its_recipe_counts(store, run):
    """A run is found by its key, and the name of a recipe is not part of it."""
    store.add(run(spec("erm", "full-batch+lsgd"), 0.6))
    _, table, _ = compared(store, spec("erm", "lsgd"))
    assert table.lines[0].cells[0].ours == pytest.approx((60,))


def test_the_notes_say_what_a_newcomer_should_see(store, run):
    for method, average, gap in (
        ("erm", 0.5, 0.9),
        ("irm-game", 0.5, 0.89),
        ("rex", 0.75, 0.0),
        ("grayscale", 0.75, 0.0),
    ):
        store.add(run(spec(method), average, gap))
    _, table, _ = compared(store, spec("erm"), spec("irm-game"), spec("rex"), spec("grayscale"))
    assert table.notes == (
        "Where the spurious cue misleads most, the accuracy of ERM is 5 % and that of REx 75 %.",
        "As misled by the cue as ERM here: IRM-Game (see: invariance list methods).",
        "GrayScale is an oracle: it never sees the spurious cue.",
    )


def test_a_method_that_never_finished_has_a_line_without_numbers(store, run):
    store.add(run(spec("erm"), status="diverged"))
    _, table, figure = compared(store, spec("erm"))
    assert [cell.note for cell in table.lines[0].cells[:3]] == ["diverged 1 of 1"] * 3
    assert table.notes == ()
    assert figure.panels == ()
