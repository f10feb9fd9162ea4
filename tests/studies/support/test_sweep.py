import pytest

from invariance.experiments.published import published_store
from invariance.experiments.stored_runs import StoredRuns
from invariance.studies import STUDIES
from invariance.studies.support.results import results as from_store
from invariance.studies.support.sweep import batch_arms, updates, width_arms


def test_batches_of_every_size_train_for_the_same_epochs_and_the_full_batch_by_its_own_recipe():
    arms = batch_arms("full", "Colored-MNIST", ["IRMv1"])
    assert [a.x for a in arms] == [256, 512, 1024, 2048, 4096, 8192, 16_384, 50_000]
    assert [a.spec.recipe.batch_size for a in arms] == [256, 512, 1024, 2048, 4096, 8192, 16_384, None]
    assert [a.spec.recipe.epochs for a in arms] == [200] * 7 + [500]


def test_the_full_batch_stands_where_the_data_end():
    assert batch_arms("smoke", "Colored-MNIST", ["IRMv1"])[-1].x == 4096


def test_widths_change_the_network_alone():
    arms = width_arms("full", ["IRMv1"])
    assert [a.spec.model.width for a in arms] == [a.x for a in arms] == [100, 200, 390, 600, 800, 1000, 1200]
    assert len({a.spec.recipe for a in arms}) == 1


def test_a_curve_is_the_mean_over_seeds_with_a_band_of_their_deviation(results):
    study = STUDIES["figure-1"]()
    (figure,) = study.show(results(study, "smoke", 3))
    average, gap = figure.panels
    assert [c.label for c in average.curves] == ["IRMv1", "IRMv0", "REx"]
    assert average.log_x
    curve = average.curves[1]
    assert curve.x == (256, 1024, 4096)
    assert curve.y == pytest.approx((61.1, 61.4, 61.7))  # arms 1, 4 and 7, seeds 0 to 2
    spread = (2 / 3) ** 0.5
    assert curve.low == pytest.approx([y - spread for y in curve.y])
    assert curve.high == pytest.approx([y + spread for y in curve.y])
    assert gap.curves[0].y == pytest.approx((9, 9, 9))


def test_figure_4_leaves_the_deviations_to_figure_a4(results):
    plain, banded = (STUDIES[name]() for name in ("figure-4", "figure-a4"))
    made = results(plain, "smoke")
    without, with_band = (study.show(made)[0].panels[0].curves[0] for study in (plain, banded))
    assert without.low == without.high == ()
    assert with_band.y == without.y
    assert len(with_band.low) == len(with_band.y)


def test_points_without_a_finished_run_are_left_out_and_said(results):
    study = STUDIES["figure-1"]()
    made = results(study, "smoke", having=lambda a: a.x == 256 and a.method != "REx")
    (figure,) = study.show(made)
    assert [(c.label, c.x) for c in figure.panels[0].curves] == [("IRMv1", (256,)), ("IRMv0", (256,))]
    assert figure.notes[0] == "no run yet at 7 points"


def test_updates_are_listed_beside_every_batch_size_and_methods_of_the_same_numbers_together(results):
    study = STUDIES["figure-1"]()
    (figure,) = study.show(results(study, "ours", 1))
    first, second = figure.notes
    assert first == (
        "Updates of IRMv1, REx: 1,960 (batch size 256), 494 (batch size 1024), 134 (batch size 4096), "
        "40 (batch size 16384), 500 (full batch)."
    )
    assert second.startswith("Updates of IRMv0: 1,568 (batch size 256), 398 (batch size 1024)")


@pytest.mark.parametrize("name", ["figure-1", "figure-a1", "figure-a5"])
def test_captions_of_figures_over_batch_size_say_that_updates_differ_too(name):
    assert "Batch sizes differ in the number of updates as well" in STUDIES[name].caption


def test_networks_of_every_width_make_as_many_updates_so_none_are_listed(results):
    study = STUDIES["figure-4"]()
    assert study.show(results(study, "ours", 1))[0].notes == ()


def test_as_many_updates_are_computed_as_published_runs_made():
    compared = set()
    with published_store() as store:
        stored = StoredRuns(store)
        for name in ("figure-1", "figure-a1", "figure-a5"):
            found = from_store(STUDIES[name]().plan("ours"), stored, "last")
            for each in found.arms:
                if row := found.row(each):
                    made, planned = {run.updates for run in row.runs}, updates(each.spec)
                    stops_early = each.method == "IRM-Game"
                    assert max(made) <= planned if stops_early else made == {planned}, (name, each.method, each.setting)
                    compared.add((each.data, each.setting))
    assert {("Colored-MNIST", "batch size 16384"), ("Colored-FMNIST", "batch size 1024")} <= compared
