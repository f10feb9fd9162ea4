import pytest

from invariance.core.artefacts import Printed
from invariance.evaluation.landscape import axis
from invariance.experiments.selected_runs import SelectedRuns
from invariance.recipes.schedules import Clock
from invariance.studies import STUDIES
from invariance.studies.support.base import Results


def test_figure_2_draws_accuracy_over_beta_and_its_distribution(results):
    study = STUDIES["figure-2"]()
    figure, table = study.show(results(study, "full", 2))
    lines, boxes = figure.panels
    assert [c.label for c in lines.curves] == list(boxes.groups) == ["IRMv1", "IRM-Game", "Fishr"]
    curve = lines.curves[0]
    assert curve.x == pytest.approx([0.05 * i for i in range(1, 20)])
    assert (curve.y[0], curve.y[-1]) == pytest.approx((65.0, 56.0))  # 60 and 61 on average, gap 9
    assert curve.high[0] - curve.low[0] == pytest.approx(1.0)
    assert len(boxes.groups["Fishr"]) == 2 * 19
    assert [line.cells[0].printed for line in table.lines] == [Printed(67.13), Printed(65.53), Printed(67.05)]
    assert table.lines[0].cells[0].difference == pytest.approx(60.5 - 67.13)
    assert table.lines[0].cells[2].ours == pytest.approx((56.0, 57.0))


def test_figure_a2_shows_the_landscape_of_the_first_seed_that_has_one(run):
    study = STUDIES["figure-a2"]()
    first, second = study.arms("quick")
    large, small = first.spec, second.spec
    assert large.evaluation.landscape == small.evaluation.landscape == 21
    found = Results(study.plan("quick"), "last", {first.identity: SelectedRuns.of([run(large)], "last")})
    (figure,) = study.show(found)
    (surface,) = figure.panels
    assert surface.title == "large batch"
    assert surface.x == surface.y == axis(21)
    assert surface.z[3][4] == 7
    assert "large batch: test loss 20 at the trained weights, +0 on average on the plane" in figure.notes
    assert "no run yet at 1 point" in figure.notes


def test_figure_a2_measures_how_far_the_loss_rises(run):
    study = STUDIES["figure-a2"]()
    arm = study.arms("smoke")[0]
    spec = arm.spec
    bowl = tuple(tuple(float(a * a + b * b) for b in axis(5)) for a in axis(5))
    made = run(spec)
    object.__setattr__(made, "landscape", bowl)
    (figure,) = study.show(Results(study.plan("smoke"), "last", {arm.identity: SelectedRuns.of([made], "last")}))
    assert "large batch: test loss 0 at the trained weights, +1 on average on the plane" in figure.notes


def test_figure_a3_without_the_penalty_has_none_at_any_time():
    on, off = (arm.spec.method for arm in STUDIES["figure-a3"]().arms("full"))
    before, after = Clock(0, 10, 5), Clock(7, 10, 5)
    assert (off.gamma_at(before), off.gamma_at(after)) == (0, 0)
    assert (off.divisor(before), off.divisor(after)) == (1, 1)
    assert (on.gamma_at(before), on.gamma_at(after)) == (1, 1e6)


def test_figure_a3_measures_often_in_large_batches():
    for arm in STUDIES["figure-a3"]().arms("full"):
        assert arm.spec.evaluation.checkpoints == 50
        assert arm.spec.recipe.batch_size is None


def test_figure_a3_draws_stationarity_as_it_is_and_in_units_of_the_features(results):
    study = STUDIES["figure-a3"]()
    (figure,) = study.show(results(study, "full", 1))
    plain, without, normalised, _ = figure.panels
    assert [panel.title for panel in figure.panels] == ["with the penalty", "without the penalty"] * 2
    assert all(panel.log_y for panel in figure.panels)
    assert plain.span == without.span  # so that the two are compared at a glance
    assert [c.label for c in plain.curves] == ["a"]
    assert plain.curves[0].x == (1, 2, 3)
    assert plain.curves[0].y == pytest.approx((0.1, 0.01, 0.001))
    assert normalised.curves[0].y == pytest.approx((0.025, 0.0025, 0.00025))  # ‖z‖ is 2


def test_figure_a3_still_shows_the_path_of_a_run_that_collapsed(results):
    study = STUDIES["figure-a3"]()
    (figure,) = study.show(results(study, "full", 1, status=lambda arm, seed: "collapsed"))
    assert [len(panel.curves) for panel in figure.panels] == [1] * 4
    assert "BLOC-IRM, Colored-MNIST, with the penalty: collapsed 1 of 1" in figure.notes
