import pytest

from invariance.core.artefacts import Printed
from invariance.experiments.selected_runs import SelectedRuns
from invariance.studies import STUDIES
from invariance.studies.support.base import Results
from invariance.studies.support.scales import SCALES

STUDY = STUDIES["controls"]()
AS_HERE = ("IRMv1", "Colored-MNIST")


def regimes(scale, method="IRMv1"):
    """The recipe of full batches, that with small batches, the recipe of small batches with full ones, and itself."""
    return [a for a in STUDY.arms(scale) if a.method == method]


@pytest.mark.parametrize("scale", ["smoke", "quick", "full"])
def test_each_control_differs_from_both_recipes_in_one_thing(scale):
    full_few, small_few, full_many, small_many = (arm.spec.recipe for arm in regimes(scale))
    for few, many in ((full_few, full_many), (small_few, small_many)):
        assert few.batch_size == many.batch_size
    for a, b in ((full_few, small_few), (full_many, small_many)):
        assert (a.batch_size, b.batch_size) == (None, 1024)
        assert (a.lr, a.lr_scale, a.warmup, a.schedule) == (b.lr, b.lr_scale, b.warmup, b.schedule)


@pytest.mark.parametrize("scale", SCALES)
def test_the_first_and_the_last_are_runs_of_table_4(scale):
    own = regimes(scale)
    table_4 = {a.setting: a.spec.key for a in STUDIES["table-4"]().arms(scale) if (a.method, a.data) == AS_HERE}
    assert [own[0].spec.key, own[-1].spec.key] == [table_4["large batch"], table_4["small batch"]]


@pytest.mark.parametrize(
    ("scale", "settings"),
    [
        ("smoke", ("full batch, 2", "small batch, 4", "full batch, 8", "small batch, 8")),
        ("quick", ("full batch, 100", "small batch, 98", "full batch, 588", "small batch, 588")),
        ("ours", ("full batch, 500", "small batch, 494")),  # as many updates: no other control is needed
        ("full", ("full batch, 500", "small batch, 490", "full batch, 9,800", "small batch, 9,800")),
    ],
)
def test_lines_are_named_by_the_updates_that_runs_make(scale, settings):
    assert tuple(a.setting for a in regimes(scale)) == tuple(f"{each} updates" for each in settings)
    (table,) = STUDY.show(Results(STUDY.plan(scale), "last", {}))
    labels = [line.label for line in table.lines[: len(settings)]]
    assert labels == [f"IRMv1: {each} updates" for each in settings]


def test_the_split_estimator_has_arms_of_its_own():
    arms, squared = regimes("quick", "IRMv1, split"), regimes("quick")
    assert [a.setting for a in arms] == [squared[i].setting for i in (0, 1, 3)]
    assert {a.spec.method.estimator for a in arms} == {"split"}
    assert {a.spec.method.estimator for a in squared} == {"squared"}


def test_numbers_of_table_4_stand_beside_the_two_recipes_it_has():
    (table,) = STUDY.show(Results(STUDY.plan("full"), "last", {}))
    found = {line.label: line.cells[0].printed for line in table.lines}
    assert found["IRMv1: full batch, 500 updates"] == Printed(67.13, 0.33)
    assert found["IRMv1: small batch, 9,800 updates"] == Printed(68.33, 0.31)
    assert found["IRMv1: small batch, 490 updates"] is None
    assert found["IRMv1, split: small batch, 9,800 updates"] is None


def show(run, *averages):
    """The notes, from the averages of every seed of each arm in turn; an arm without any was not run."""
    rows = {}
    for arm, values in zip(regimes("quick"), averages, strict=True):
        if values:
            rows[arm.identity] = SelectedRuns.of([run(arm.spec, v / 100) for v in values], "last")
    (table,) = STUDY.show(Results(STUDY.plan("quick"), "last", rows))
    return table.notes


def test_notes_say_which_part_of_the_gain_each_change_has(run):
    average, gap = show(run, (60, 60.2), (61, 61.2), (66, 66.2), (67, 67.2))
    assert average == (
        "IRMv1, average: +7.00 ± 0.14 points from the first line to the fourth, "
        "+1.00 by batch size and +6.00 by updates; updates have the larger part"
    )
    assert gap.endswith("these seeds do not tell which part is larger")


def test_batch_size_may_have_the_larger_part_too(run):
    average, _ = show(run, (60, 60.2), (66, 66.2), (61, 61.2), (67, 67.2))
    assert average.endswith("+6.00 by batch size and +1.00 by updates; batch size has the larger part")


def test_one_seed_each_decides_nothing(run):
    assert show(run, (60,), (61,), (66,), (67,))[0].endswith("these seeds do not tell which part is larger")


def test_three_of_four_arms_say_nothing(run):
    assert show(run, (60,), (61,), (), (67,)) == ()


def test_the_split_estimator_is_compared_where_both_were_run(run, results):
    (table,) = STUDY.show(results(STUDY, "quick", 2))
    (note,) = [n for n in table.notes if n.startswith("IRMv1, split, average")]
    assert note == (
        "IRMv1, split, average: +0.40 ± 0.71 (full batch, 100 updates); +0.40 ± 0.71 (small batch, 98 updates); "
        "+0.30 ± 0.71 (small batch, 588 updates) points against the squared estimator"
    )
