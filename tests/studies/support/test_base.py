from dataclasses import replace

import pytest

from invariance.experiments.selected_runs import SelectedRuns
from invariance.studies import STUDIES
from invariance.studies.support.base import Results, arm
from invariance.studies.support.results import specs
from invariance.studies.support.scales import SCALES


def only(study, method, data, setting, scale="full"):
    (found,) = [a for a in STUDIES[study]().arms(scale) if (a.method, a.data, a.setting) == (method, data, setting)]
    return found.spec.key


SHARED = [
    ("table-a1", "IRMv1", "Colored-MNIST", "small batch", "table-4", "small batch"),
    ("table-a1", "Fishr", "Colored-FMNIST", "small batch", "table-4", "small batch"),
    ("table-a1", "ERM", "Colored-MNIST", "small batch", "table-4", "reference"),
    ("table-a3", "BLOC-IRM", "Colored-MNIST", "small batch", "table-a1", "small batch"),
    ("table-a3", "SparseIRM", "Colored-MNIST", "small batch", "table-4", "small batch"),
    ("table-3", "BIRM", "Colored-MNIST", "large batch", "table-4", "large batch"),
    ("table-3", "REx", "Colored-MNIST", "small batch", "table-4", "small batch"),
    ("figure-2", "IRMv1", "Colored-MNIST", "large batch", "table-4", "large batch"),
    ("figure-2", "IRM-Game", "Colored-MNIST", "large batch", "table-4", "large batch"),
    ("figure-2", "Fishr", "Colored-MNIST", "large batch", "table-4", "large batch"),
    ("figure-1", "IRMv0", "Colored-MNIST", "full batch", "table-4", "large batch"),
    ("figure-1", "IRMv0", "Colored-MNIST", "batch size 1024", "table-4", "small batch"),
    ("figure-1", "REx", "Colored-MNIST", "batch size 256", "figure-a1", "batch size 256"),
    ("figure-a5", "REx", "Colored-FMNIST", "full batch", "table-4", "large batch"),
    ("figure-a5", "IRMv1", "Colored-FMNIST", "batch size 1024", "table-4", "small batch"),
    ("figure-4", "BLOC-IRM", "Colored-MNIST", "width 100", "figure-a4", "width 100"),
]


@pytest.mark.parametrize(("study", "method", "data", "setting", "other", "there"), SHARED)
@pytest.mark.parametrize("scale", SCALES)
def test_what_two_studies_share_is_run_once(study, method, data, setting, other, there, scale):
    assert only(study, method, data, setting, scale) == only(other, method, data, there, scale)


@pytest.mark.parametrize("scale", [name for name, scale in SCALES.items() if "model" not in scale.changes])
def test_the_usual_width_is_run_once_where_networks_have_it(scale):
    wide = only("figure-4", "BIRM", "Colored-MNIST", "width 390", scale)
    assert wide == only("table-4", "BIRM", "Colored-MNIST", "small batch", scale)


def test_the_full_scale_has_the_papers_batches_epochs_and_seeds():
    large, small = (STUDIES["table-4"]().arms("full")[i].spec for i in (4, -1))
    assert (large.recipe.batch_size, large.recipe.epochs, large.method.gamma) == (None, 500, 1e6)
    assert (small.recipe.batch_size, small.recipe.epochs, small.model.width) == (1024, 200, 390)
    assert SCALES["full"].seeds == 10


def test_what_an_arm_changes_wins_over_its_scale():
    assert arm("smoke", "ERM", "Colored-MNIST", "", "small-batch").spec.recipe.epochs == 2
    assert arm("smoke", "ERM", "Colored-MNIST", "", "small-batch", {"recipe": {"epochs": 7}}).spec.recipe.epochs == 7


def test_a_scale_changes_only_fields_that_the_data_have():
    assert arm("smoke", "ERM", "Colored-MNIST", "", "small-batch").spec.data.images == 4096
    assert (
        arm("smoke", "ERM", "Two-Bit", "", "small-batch").spec.data
        == arm("full", "ERM", "Two-Bit", "", "small-batch").spec.data
    )


def test_the_quick_scale_replaces_recipes_inside_a_combination():
    assert arm("quick", "ERM", "Two-Bit", "", "full-batch+sam").spec.recipe_name == "short-full+sam"


def test_a_small_data_set_replaces_the_recipe_of_a_scale_that_does_not_suit_it():
    recipes = {scale: arm(scale, "IRMv1", "PACS", "", "small-batch").spec.recipe_name for scale in SCALES}
    assert recipes["quick"] == "debiased"
    assert recipes["ours-small"] == recipes["ours"] == "two-phase"
    small, whole = (arm(scale, "IRMv1", "PACS", "", "small-batch").spec for scale in ("ours-small", "ours"))
    assert small.recipe == whole.recipe
    assert small.model.width < whole.model.width


def test_a_data_set_of_a_later_version_is_listed_with_what_it_waits_for():
    waiting = arm("full", "ERM", "Waterbirds", "small batch", "small-batch")
    assert waiting.spec is None
    assert Results("full", "last", {}).note(waiting) == "waits for Waterbirds: not in this version yet"


def test_data_that_are_not_here_are_waited_for_beside_the_printed_numbers(tmp_path, monkeypatch):
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path))
    waiting = arm("full", "ERM", "PACS", "small batch", "small-batch")
    quantity = Results("full", "last", {}).quantity(waiting, "average", "table-5")
    assert quantity.note.startswith(f"waits for PACS: there is no folder PACS in {tmp_path} or ")
    assert quantity.printed.mean == 69.95


def test_runs_that_were_made_elsewhere_are_shown_without_their_data(tmp_path, monkeypatch, run):
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path))
    plan = STUDIES["table-5"]().plan("full")
    own = next(a for a in plan.arms if a.data == "PACS")
    assert not [spec for spec in specs(plan, 1) if spec.data_name == "pacs"]  # and are not made here
    made = Results(plan, "last", {own.identity: SelectedRuns.of([run(own.spec)], "last")})
    assert made.quantity(own, "average", "table-5").ours == pytest.approx((70,))
    assert made.note(own) == ""


def test_a_scale_waits_for_the_data_that_it_uses(tmp_path, monkeypatch):
    (tmp_path / "eth80-coco/images").mkdir(parents=True)
    (tmp_path / "eth80-coco/annotations").mkdir()
    (tmp_path / "eth80-coco/annotations/instances.json").write_text("{}")
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path))
    assert arm("quick", "ERM", "Colored-Object", "", "small-batch").spec
    assert arm("full", "ERM", "Colored-Object", "", "small-batch").waits.startswith("waits for Colored-Object")


def test_data_that_arrive_fill_in_by_themselves(tmp_path, monkeypatch, results):
    (tmp_path / "PACS/photo/dog").mkdir(parents=True)
    (tmp_path / "PACS/photo/dog/1.jpg").touch()
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path))
    study = STUDIES["table-5"]()
    table, _ = study.show(results(study, "smoke"))
    average, gap = table.lines[0].cells[-2:]
    assert [c.group for c in table.columns][-2:] == ["PACS"] * 2
    assert len(average.ours) == len(gap.ours) == 2
    assert average.note == ""
    assert table.lines[0].cells[0].note.startswith("waits for Colored-Object")


@pytest.mark.parametrize(
    ("last", "note"),
    [("finished", "no logit offset in 1 of 3"), ("collapsed", "collapsed 1 of 3; no logit offset in 1 of 3")],
)
def test_a_collapsed_seed_does_not_hide_that_another_had_no_logit_offset(run, last, note):
    plan = STUDIES["table-a5"]().plan("debiased")
    own = next(a for a in plan.arms if a.method == "IRMv1")
    runs = [run(own.spec.with_seed(seed), status=last if seed == 2 else "finished") for seed in range(3)]
    runs[0] = replace(runs[0], reason="no cue was found")
    made = Results(plan, "last", {own.identity: SelectedRuns.of(runs, "last")})
    assert made.note(own) == note


def test_missing_points_of_a_figure_are_counted_and_failures_named(results):
    study = STUDIES["figure-2"]()
    arms = study.arms("full")
    made = results(study, "full", 2, status=lambda a, s: "diverged" if s else "finished", having=lambda a: a != arms[0])
    assert made.notes(arms) == (
        "no run yet at 1 point",
        "IRM-Game, Colored-MNIST, large batch: diverged 1 of 2",
        "Fishr, Colored-MNIST, large batch: diverged 1 of 2",
    )


@pytest.mark.parametrize(
    ("seeds", "said"), [((), "no seeds"), ((1,), "1 seed "), ((2,), "2 seeds"), ((1, 3), "1–3 seeds")]
)
def test_provenance_counts_seeds(seeds, said, results):
    study = STUDIES["figure-2"]()
    plan = study.plan("full")
    rows = {}
    for n, own in zip(seeds, plan.arms, strict=False):
        rows |= results(study, "full", n, having=lambda a, own=own: a == own).rows
    provenance = Results(plan, "oracle", rows).provenance
    assert f"· {said}" in provenance
    assert ("± population standard deviation" in provenance) == (max(seeds, default=0) > 1)
    assert ("· recipe small-batch ·" in provenance or "· recipe full-batch ·" in provenance) == bool(seeds)
    assert provenance.endswith("checkpoint: oracle (has seen test data)")
