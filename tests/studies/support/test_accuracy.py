from dataclasses import replace

import pytest

from invariance.core.artefacts import Printed
from invariance.studies import STUDIES
from invariance.studies.support.base import Results
from invariance.studies.support.scales import SCALES


def before_any_run(name: str):
    study = STUDIES[name]()
    return study.show(Results(study.plan("full"), "last", {}))


def line(table, label):
    (found,) = [line for line in table.lines if line.label == label]
    return found


def test_ours_stand_beside_the_printed_numbers_with_the_difference(results):
    study = STUDIES["table-4"]()
    irmv1 = [a for a in study.arms("full") if a.method == "IRMv1" and a.setting == "large batch"]
    (table,) = study.show(results(study, "full", having=lambda a: a in irmv1))
    average, gap = line(table, "IRMv1").cells[0:4:2]
    assert [(c.group, c.name) for c in table.columns[:2]] == [
        ("Colored-MNIST · average", "large batch"),
        ("Colored-MNIST · average", "small batch"),
    ]
    assert (average.seeds, average.collapsed, average.metric, gap.metric) == (2, 0, "average", "gap")
    assert average.ours == pytest.approx((60.4, 61.4))
    assert average.std == pytest.approx(0.5)
    assert average.printed == Printed(67.13, 0.33)
    assert average.difference == pytest.approx(60.9 - 67.13)
    assert gap.ours == pytest.approx((9.0, 9.0))
    assert gap.difference == pytest.approx(9.0 - 3.43)


def test_a_place_that_the_table_does_not_have_is_blank():
    (table,) = before_any_run("table-4")
    assert line(table, "GrayScale").cells[::2] == ("",) * 4  # it is trained in small batches alone
    assert all(line(table, "IRMv1").cells)


def test_seeds_that_failed_are_noted_and_left_out(results):
    study = STUDIES["table-a5"]()
    table, _ = study.show(results(study, "full", 3, status=lambda arm, seed: "collapsed" if seed == 1 else "finished"))
    average = line(table, "ERM").cells[0]
    assert average.ours == pytest.approx((60, 62))
    assert (average.note, average.seeds, average.collapsed) == ("collapsed 1 of 3", 3, 1)


def test_collapsed_seeds_are_averaged_where_they_are_asked_for(results):
    study = STUDIES["table-a5"]()
    made = results(study, "full", 3, status=lambda arm, seed: "collapsed" if seed == 1 else "finished")
    rows = {name: replace(row, with_collapsed=True) for name, row in made.rows.items()}
    asked = replace(made, rows=rows, with_collapsed=True)
    table, _ = study.show(asked)
    average = line(table, "ERM").cells[0]
    assert average.ours == pytest.approx((60, 61, 62))
    assert (average.seeds, average.collapsed) == (3, 1)
    assert "3 seeds, collapsed ones included" in asked.provenance


def test_table_3_averages_over_methods(results):
    study = STUDIES["table-3"]()
    table, _ = study.show(results(study, "full", 1))
    average = line(table, "Average")
    assert [cell.printed.mean for cell in average.cells] == [67.02, 67.25, 67.34, 67.63, 68.44]
    assert average.cells[0].ours == pytest.approx((60.3,))  # arms 0 to 6
    assert average.cells[4].ours == pytest.approx((63.1,))  # arms 28 to 34


def test_table_3_has_no_average_where_a_method_is_missing(results):
    study = STUDIES["table-3"]()
    table, _ = study.show(results(study, "full", 1, having=lambda a: a.method != "REx"))
    cell = line(table, "Average").cells[0]
    assert cell.ours == ()
    assert cell.note == "1 of 7 methods without a value"


def test_table_a2_shows_the_optimum_as_printed():
    (table,) = before_any_run("table-a2")
    assert table.lines[0].label == "Optimum"
    assert [cell.printed.mean for cell in table.lines[0].cells] == [75, 0, 75, 0]
    assert [a.spec.data.betas for a in STUDIES["table-a2"]().arms("full")][:: len(table.lines) - 1] == [
        (0.1, 0.15),
        (0.1, 0.15, 0.2),
    ]


def test_table_a3_changes_what_bloc_irm_penalises():
    found = STUDIES["table-a3"]().arms("full")
    arms = [a for a in found if a.data == "Colored-MNIST" and a.method != "SparseIRM"]
    assert [a.spec.method.penalty for a in arms] == ["stationarity", "irmv1", "rex", "fishr"]


def test_table_a4_changes_what_else_differs_between_environments():
    arms = [a for a in STUDIES["table-a4"]().arms("full") if a.method == "ERM"]
    assert [(a.spec.data.shift, a.spec.data.p) for a in arms] == [(s, 0.5) for s in ("class", "digit", "colour")] * 2


def test_a_table_of_one_metric_is_headed_by_its_settings():
    (table,) = before_any_run("table-3")
    assert {c.group for c in table.columns} == {"Colored-MNIST"}
    assert [c.name for c in table.columns][::4] == ["large batch", "small batch"]


@pytest.mark.parametrize("scale", SCALES)
def test_table_3_multiplies_the_rate_by_ten_for_lsgd_and_has_one_for_lalr_at_every_scale(scale):
    arms = {a.setting: a.spec for a in STUDIES["table-3"]().arms(scale) if a.method == "IRMv1"}
    plain, lsgd, lalr = (arms[f"large batch{name}"].recipe for name in ("", " + LSGD", " + LALR"))
    assert (lsgd.lr, lsgd.lr_scale) == (plain.lr, 10)
    assert lalr.lr * lalr.lr_scale == pytest.approx(0.1)


@pytest.mark.parametrize("scale", ["debiased", "ours"])
def test_large_and_small_batches_are_one_algorithm(scale):
    arms = {a.setting: a.spec for a in STUDIES["table-3"]().arms(scale) if a.method == "IRMv1"}
    large, small = arms["large batch"], arms["small batch"]
    sizes = {"batch_size": None, "penalty_batch_size": None, "epochs": 500, "precision": large.recipe.precision}
    assert large.method == small.method
    assert large.recipe == replace(small.recipe, **sizes, debias=large.recipe.debias)
    assert large.recipe.updates(50_000)[1] == 500
    assert classifier_updates(large.recipe) == classifier_updates(small.recipe)


def classifier_updates(recipe):
    """Of the environment classifier, on four fifths of the samples."""
    return replace(recipe, epochs=recipe.debias).updates(40_000)[1] if recipe.debias else 0
