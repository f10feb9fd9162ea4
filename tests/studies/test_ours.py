"""Studies that the paper does not have."""

import pytest

from invariance.core.artefacts import Figure, Table
from invariance.studies import STUDIES
from invariance.studies.support.results import specs
from invariance.training.selection import RULES, label


def test_debiasing_and_penalty_are_told_apart():
    arms = {(a.method, a.data, a.setting): a.spec for a in STUDIES["parts"]().arms("ours")}
    for data in ("Colored-MNIST", "Colored-FMNIST"):
        neither, debiasing = arms["ERM", data, "neither"].recipe, arms["Env-PoE", data, "debiasing"].recipe
        assert (neither.debias, debiasing.debias) == (0, 2)
        for method in ("IRMv1", "REx", "BLOC-IRM"):
            penalty, both = arms[method, data, "penalty"], arms[method, data, "both"]
            assert penalty.recipe.debias == 0
            assert penalty.method.gamma >= 1e3
            assert (both.recipe.debias, both.method.gamma) == (2, 1.0)
            assert both.recipe == debiasing


def test_rules_are_compared_on_the_same_runs(results):
    study = STUDIES["rules"]()
    (table,) = study.show(results(study, "ours", 2))
    assert isinstance(table, Table)
    assert [line.label for line in table.lines] == [label(name) for name, rule in RULES.items() if not rule.holds_out]
    assert {len(cell.ours) for line in table.lines for cell in line.cells} == {6, 12}  # paper's profile: one data set


def test_a_rule_that_takes_a_collapsed_model_says_how_often(results):
    study = STUDIES["rules"]()
    (table,) = study.show(results(study, "ours", 2, status=lambda arm, seed: "collapsed" if seed else "finished"))
    notes = {line.label: line.cells[0].note for line in table.lines}
    assert notes["last"] == "6 of 12 without a value"
    assert notes["invariant"] == ""


def test_the_two_profiles_over_a_run_share_an_axis(results):
    study = STUDIES["collapse"]()
    figure, table = study.show(results(study, "ours", 1))
    assert isinstance(figure, Figure)
    paper, debiased = figure.panels[:3], figure.panels[3:]
    assert [panel.title.partition(":")[0] for panel in figure.panels] == ["paper"] * 3 + ["debiased"] * 3
    assert [panel.span for panel in paper] == [panel.span for panel in debiased]
    assert all(curve.x[-1] == 1.0 for panel in figure.panels for curve in panel.curves)
    assert isinstance(table, Table)
    assert len(table.lines) == 8
    assert all(line.cells[-1] == "never" and line.cells[2] >= line.cells[6] for line in table.lines)


@pytest.mark.parametrize(
    ("only", "runs"), [((), 32 + 4), (("small batch",), 28), (("SMALL BATCH", "irmv1"), 4), (("no such thing",), 0)]
)
def test_a_part_of_a_study_can_be_run_alone(only, runs):
    large = 0 if only else 28
    assert len(specs(STUDIES["table-4"]().plan("ours"), 2, only)) == runs + large


def test_the_paper_s_protocol_differs_in_its_rate_alone(results):
    study = STUDIES["rates"]()
    tried = [a.spec for a in study.arms("ours") if a.method == "REx"]
    assert {spec.recipe.lr for spec in tried} == {1e-4, 3e-4, 1e-3, 2e-3}
    assert {(s.recipe.epochs, s.recipe.batch_size, s.recipe.warmup, s.method.gamma) for s in tried} == {
        (200, 1024, 0.25, 1e6)
    }
    (table,) = study.show(results(study, "ours", 1))
    assert isinstance(table, Table)
    assert [column.group for column in table.columns][::2] == [
        *("rate 10⁻⁴", "rate 3·10⁻⁴", "rate 10⁻³", "rate 2·10⁻³"),
    ]
