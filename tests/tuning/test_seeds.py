"""Seeds of a trial are run one after another, and none after one by which the trial has no score."""

import pytest

from invariance.experiments.engines.local import Local
from invariance.experiments.store import Store
from invariance.recipes.search import OneOf
from invariance.tuning.tune import make_runs

DIVERGES = {"recipe": {"lr": 1e30, "step": "sgd"}}
QUICK = {"recipe": {"epochs": 2, "batch_size": 100}}
SOME_COLLAPSE = {"recipe.lr": OneOf((1e-3, 1e-2)), "method.l2": OneOf((1e-3, 1e4))}


def settings_and_outcomes(tuning) -> list[tuple]:
    return [(t.settings, t.status, t.score, t.reason, t.keys) for t in tuning.trials]


def test_a_trial_gets_no_seed_after_one_that_collapsed(bench):
    tuning = bench.tune("rex", trials=6, rule="oracle", seeds=3, changes=QUICK, ranges=SOME_COLLAPSE)
    seeds = {status: {len(t.keys) for t in tuning.trials if t.status == status} for status in ("finished", "pruned")}
    assert seeds == {"finished": {3}, "pruned": {1}}
    assert {t.reason for t in tuning.trials if t.status == "pruned"} == {"collapsed 1 of 1"}
    assert sorted(bench.done) == sorted({key for t in tuning.trials for key in t.keys})
    with Store(bench.store) as store:
        for trial in tuning.trials:
            assert [store.get(key).spec.seed for key in trial.keys] == [100, 101, 102][: len(trial.keys)]
            assert trial.seconds == sum(store.get(key).seconds for key in trial.keys)


def test_a_trial_whose_environments_still_differ_gets_no_further_seed(bench):
    """The warm-up is the whole run, so the penalty never sets in, and the homogeneity test tells them apart."""
    changes = {"data": {"samples": 20_000}, "recipe": {"epochs": 3, "batch_size": 500, "warmup": 1.0}}
    (trial,) = bench.tune("rex", trials=1, seeds=3, changes=changes).trials
    assert (trial.status, len(trial.keys), len(bench.done)) == ("pruned", 1, 1)
    assert "differ in loss or calibration" in trial.reason


@pytest.mark.parametrize("runs", [1, 4, 6])
def test_a_search_that_is_stopped_between_seeds_goes_on_as_if_it_had_not_been(benches, runs):
    options = {"trials": 5, "rule": "oracle", "seeds": 2, "changes": QUICK, "ranges": SOME_COLLAPSE}
    whole, stopped = benches("whole"), benches("stopped")
    expected = whole.tune("rex", **options)
    assert {t.status for t in expected.trials} == {"finished", "pruned"}
    stopped.stop_after = runs
    with pytest.raises(KeyboardInterrupt):
        stopped.tune("rex", **options)
    stopped.stop_after = None
    assert settings_and_outcomes(stopped.tune("rex", **options)) == settings_and_outcomes(expected)
    assert sorted(stopped.done) == sorted(whole.done)


def test_every_environment_is_left_out_with_one_seed_before_the_next(bench):
    changes = {"data": {"samples": 400, "betas": [0.1, 0.2, 0.3]}, **DIVERGES}
    (trial,) = bench.tune("rex", trials=1, seeds=2, rule="leave-one-environment-out", changes=changes).trials
    assert (trial.status, trial.reason, len(trial.keys)) == ("pruned", "diverged 1 of 1", 4)


def test_worker_processes_are_given_no_run_of_a_later_seed_either(bench):
    tuning = bench.tune(trials=3, seeds=3, changes=DIVERGES, run=make_runs, engine=Local(workers=2))
    assert [(t.status, len(t.keys)) for t in tuning.trials] == [("pruned", 1)] * 3
    with Store(bench.store) as store:
        assert [run.seed for run in store.summaries()] == [100, 100, 100]
