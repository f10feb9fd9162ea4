import pytest

from invariance.core.artefacts import Printed
from invariance.experiments.selected_runs import SelectedRuns
from invariance.studies import STUDIES
from invariance.studies.controls import FULL_FEW, FULL_MANY, SMALL_FEW, SMALL_MANY, updates
from invariance.studies.support.base import Results

STUDY = STUDIES["controls"]()


def regimes(scale, method="IRMv1"):
    return {a.setting: a for a in STUDY.arms(scale) if a.method == method}


@pytest.mark.parametrize("scale", ["smoke", "quick", "full"])
def test_each_control_differs_from_both_recipes_in_one_thing(scale):
    arms = {setting: arm.spec for setting, arm in regimes(scale).items()}
    for few, many in ((FULL_FEW, FULL_MANY), (SMALL_FEW, SMALL_MANY)):
        assert arms[few].recipe.batch_size == arms[many].recipe.batch_size
    for full, small in ((FULL_FEW, SMALL_FEW), (FULL_MANY, SMALL_MANY)):
        a, b = arms[full].recipe, arms[small].recipe
        assert (a.batch_size, b.batch_size) == (None, 1024)
        assert (a.lr, a.lr_scale, a.warmup, a.schedule) == (b.lr, b.lr_scale, b.warmup, b.schedule)


def test_recipes_of_as_many_updates_need_no_other_control():
    arms = regimes("ours")
    assert [(setting, arm.x) for setting, arm in arms.items()] == [(FULL_FEW, 500), (SMALL_MANY, 6 * 49 + 8 * 25)]


@pytest.mark.parametrize(
    ("scale", "counts"), [("smoke", (2, 4, 8, 8)), ("quick", (100, 98, 588, 588)), ("full", (500, 490, 9800, 9800))]
)
def test_updates_are_counted(scale, counts):
    arms = regimes(scale)
    assert tuple(arms[s].x for s in (FULL_FEW, SMALL_FEW, FULL_MANY, SMALL_MANY)) == counts
    (table,) = STUDY.show(Results(STUDY.plan(scale), "last", {}))
    assert tuple(line.cells[0] for line in table.lines[:4]) == counts


def test_as_many_updates_are_counted_as_are_made():
    spec = regimes("full")[SMALL_MANY].spec
    assert updates(spec, 50_000) == 200 * 49


def test_the_split_estimator_has_arms_of_its_own():
    arms = regimes("quick", "IRMv1, split")
    assert FULL_MANY not in arms
    assert {a.spec.method.estimator for a in arms.values()} == {"split"}
    assert {a.spec.method.estimator for a in regimes("quick").values()} == {"squared"}


def test_numbers_of_table_4_stand_beside_the_two_recipes_it_has():
    (table,) = STUDY.show(Results(STUDY.plan("full"), "last", {}))
    found = {line.label: line.cells[1].printed for line in table.lines}
    assert found[f"IRMv1: {FULL_FEW}"] == Printed(67.13, 0.33)
    assert found[f"IRMv1: {SMALL_MANY}"] == Printed(68.33, 0.31)
    assert found[f"IRMv1: {SMALL_FEW}"] is None
    assert found[f"IRMv1, split: {SMALL_MANY}"] is None


def show(run, averages, method="IRMv1"):
    rows = {}
    for setting, values in averages.items():
        arm = regimes("quick", method)[setting]
        spec = arm.spec
        rows[arm.identity] = SelectedRuns.of([run(spec, v / 100) for v in values], "last")
    (table,) = STUDY.show(Results(STUDY.plan("quick"), "last", rows))
    return table.notes


def test_notes_say_which_part_of_the_gain_each_change_has(run):
    averages = {FULL_FEW: (60, 60.2), SMALL_FEW: (61, 61.2), FULL_MANY: (66, 66.2), SMALL_MANY: (67, 67.2)}
    average, gap = show(run, averages)
    assert average == (
        "IRMv1, average: +7.00 ± 0.14 points from the first line to the fourth, "
        "+1.00 by batch size and +6.00 by updates; updates have the larger part"
    )
    assert gap.endswith("these seeds do not tell which part is larger")


def test_batch_size_may_have_the_larger_part_too(run):
    averages = {FULL_FEW: (60, 60.2), SMALL_FEW: (66, 66.2), FULL_MANY: (61, 61.2), SMALL_MANY: (67, 67.2)}
    assert show(run, averages)[0].endswith("+6.00 by batch size and +1.00 by updates; batch size has the larger part")


def test_one_seed_each_decides_nothing(run):
    averages = {FULL_FEW: (60,), SMALL_FEW: (61,), FULL_MANY: (66,), SMALL_MANY: (67,)}
    assert show(run, averages)[0].endswith("these seeds do not tell which part is larger")


def test_three_of_four_arms_say_nothing(run):
    assert show(run, {FULL_FEW: (60,), SMALL_FEW: (61,), SMALL_MANY: (67,)}) == ()


def test_the_split_estimator_is_compared_where_both_were_run(run, results):
    (table,) = STUDY.show(results(STUDY, "quick", 2))
    (note,) = [n for n in table.notes if n.startswith("IRMv1, split, average")]
    assert note == (
        "IRMv1, split, average: +0.40 ± 0.71 (full batch, few updates); +0.40 ± 0.71 (small batch, few updates); "
        "+0.30 ± 0.71 (small batch, many updates) points against the squared estimator"
    )
