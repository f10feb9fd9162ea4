from dataclasses import replace

import pytest

from invariance.core.errors import BadValue
from invariance.experiments.store import Store
from invariance.experiments.stored_runs import StoredRuns
from invariance.studies import STUDIES
from invariance.studies.support.results import refuse_held_out, specs
from invariance.studies.support.results import results as from_store


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "runs.db")
    yield made
    made.close()


def test_every_arm_is_run_with_every_seed():
    study = STUDIES["table-4"]()
    wanted = specs(study.plan("quick"), 3)
    assert len({spec.key for spec in wanted}) == len(wanted) == 3 * len(study.arms("quick"))
    assert {spec.seed for spec in wanted} == {0, 1, 2}


def test_arms_that_wait_need_no_run():
    for name, seeds in (("table-5", 10), ("table-a1", 1)):
        study = STUDIES[name]()
        ready = [arm for arm in study.arms("full") if not arm.waits]
        assert len(specs(study.plan("full"), seeds)) == seeds * len(ready)
    assert len([arm for arm in ready if arm.data in ("Colored-MNIST", "Colored-FMNIST")]) == 20


def test_seeds_that_would_not_be_shown_are_not_run():
    assert len(specs(STUDIES["figure-a2"]().plan("full"), 10)) == 2


def test_no_seed_is_too_few():
    with pytest.raises(BadValue, match="seeds = 0; at least 1 is needed"):
        specs(STUDIES["table-4"]().plan("quick"), 0)


def test_every_seed_in_the_store_counts_and_nothing_else(store, run):
    study = STUDIES["table-a5"]()
    erm, irmv1, *_ = (arm.spec for arm in study.arms("full"))
    for seed in (0, 1, 7):
        store.add(run(replace(erm, seed=seed), 0.8 + 0.01 * seed))
    store.add(run(irmv1, status="diverged"))
    store.add(run(study.arms("quick")[2].spec))
    found = from_store(study.plan("full"), StoredRuns(store))
    assert found.rows.keys() == {arm.identity for arm in study.arms("full")[:2]}
    (table,) = study.show(found)
    average = table.lines[0].cells[0]
    assert average.ours == pytest.approx((80, 81, 87))
    assert average.difference == pytest.approx(average.mean - 83.09)
    assert [line.cells[0].note for line in table.lines] == ["", "diverged 1 of 1", "no run yet", "no run yet"]
    assert "1–3 seeds" in table.provenance


def test_runs_that_held_an_environment_out_do_not_count(store, run):
    study = STUDIES["table-a5"]()
    erm = study.arms("full")[0].spec
    store.add(run(erm.holding_out("β=0.2"), status="diverged"))
    assert not from_store(study.plan("full"), StoredRuns(store)).rows
    store.add(run(erm))
    (row,) = from_store(study.plan("full"), StoredRuns(store)).rows.values()
    assert row.status == "finished"


def test_a_rule_that_holds_environments_out_is_refused():
    with pytest.raises(BadValue, match="leave-one-environment-out needs runs that hold environments out"):
        refuse_held_out("leave-one-environment-out")
