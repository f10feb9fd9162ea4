import json
import multiprocessing
import pickle
import time
from dataclasses import replace

import numpy as np
import pytest

from invariance import errors
from invariance.errors import BadValue
from invariance.evaluation import Scores
from invariance.experiments.comparison import Comparison, Row
from invariance.experiments.run import Run
from invariance.experiments.spec import Spec
from invariance.selection import Checkpoint

SMALL = {"data": {"samples": 200}, "recipe": {"epochs": 5, "batch_size": 200}}


def spec(method: str, seed: int = 0, recipe: str = "short", **data) -> Spec:
    return Spec.of("two-bit", method, recipe, seed, SMALL | {"data": SMALL["data"] | data})


def checkpoint(step: int, validation: float, test: float, collapsed: bool) -> Checkpoint:
    scores = Scores({"β=0.1": test + 0.1, "β=0.9": test - 0.1})
    return Checkpoint(step, 1.0, collapsed, scores, Scores({"β=0.1": validation}), scores)


def run(spec: Spec, *test: float, status: str = "finished", validation: tuple[float, ...] = ()) -> Run:
    """A run whose checkpoints have these test scores; if it collapsed, the last one is a constant."""
    found = list(zip(validation or [0.5] * len(test), test, strict=True))
    constant = [status == "collapsed" and i == len(found) - 1 for i in range(len(found))]
    history = tuple(checkpoint(i + 1, v, t, c) for i, ((v, t), c) in enumerate(zip(found, constant, strict=True)))
    return Run(spec, status, history, seconds=2.0)


# Rows


def test_a_run_that_collapsed_at_its_end_counts_where_an_earlier_checkpoint_is_taken():
    only = spec("erm")
    made = run(only, 0.7, 0.1, status="collapsed", validation=(0.9, 0.5))
    (last,) = Comparison(((only,),)).rows([made])
    (best,) = Comparison(((only,),), "training-domain").rows([made])
    assert (last.status, last.values("mean")) == ("collapsed 1 of 1", [])
    assert (best.status, best.values("mean")) == ("finished", pytest.approx([70]))


def test_a_seed_whose_held_out_run_diverged_is_left_out_and_the_others_stay():
    seeds = tuple(spec("erm", seed, betas=[0.1, 0.15, 0.2]) for seed in (0, 1))
    held = [s.holding_out(f"β={beta:g}") for s in seeds for beta in (0.1, 0.15, 0.2)]
    runs = [*(run(s, 0.6, 0.7) for s in (*seeds, *held[1:])), run(held[0], status="diverged")]
    (row,) = Comparison((seeds,), "leave-one-environment-out").rows(runs)
    assert row.status == "diverged 1 of 2"
    assert row.values("mean") == pytest.approx([70])


def test_a_row_averages_its_seeds_in_percent():
    seeds = tuple(spec("erm", seed) for seed in (3, 4))
    (row,) = Comparison((seeds,)).rows([run(seeds[1], 0.1, 0.7), run(seeds[0], 0.9, 0.5)])
    assert row.status == "finished"
    assert [r.spec.seed for r in row.runs] == [3, 4]
    assert row.values("mean") == pytest.approx([50, 70])
    assert row.values("worst") == pytest.approx([40, 60])
    assert row.values("gap") == pytest.approx([20, 20])
    assert row.curve() == {"β=0.1": pytest.approx([60, 80]), "β=0.9": pytest.approx([40, 60])}
    plain = json.loads(json.dumps(row.to_json()))
    assert plain == {
        "method": "erm",
        "data": "two-bit",
        "recipe": "short",
        "seeds": 2,
        "first_seed": 3,
        "selection": "last",
        "status": "finished",
        "seconds": 2.0,
        "average": pytest.approx(60),
        "average_std": pytest.approx(np.std([50, 70])),
        "worst": pytest.approx(50),
        "worst_std": pytest.approx(10),
        "gap": pytest.approx(20),
        "gap_std": pytest.approx(0, abs=1e-9),
    }


def test_seeds_that_collapsed_or_diverged_are_counted_and_not_averaged():
    seeds = tuple(spec("erm", seed) for seed in range(4))
    runs = [
        run(seeds[0], 0.6),
        run(seeds[1], 0.1, status="collapsed"),
        run(seeds[2], status="diverged"),
        run(seeds[3], 0.1, status="collapsed"),
    ]
    (row,) = Comparison((seeds,)).rows(runs)
    assert row.status == "collapsed 2 of 4, diverged 1 of 4"
    assert row.values("mean") == pytest.approx([60])
    plain = row.to_json()
    assert plain["seeds"] == 4
    assert plain["average"] == pytest.approx(60)


def test_a_method_without_a_finished_seed_has_no_average():
    own = spec("erm")
    (row,) = Comparison(((own,),)).rows([run(own, status="diverged")])
    assert row.status == "diverged 1 of 1"
    assert row.curve() == {}
    assert {name: row.to_json()[name] for name in ("average", "worst", "gap", "average_std")} == dict.fromkeys(
        ("average", "worst", "gap", "average_std")
    )


def test_every_method_has_its_own_row_in_the_order_given():
    methods = [(spec("rex"),), (spec("erm"),), (spec("irmv1"),)]
    runs = [run(own, 0.3 + 0.1 * i) for i, (own,) in enumerate(methods)]
    rows = Comparison(tuple(methods)).rows(runs[::-1])
    assert [row.spec.method for row in rows] == ["rex", "erm", "irmv1"]
    assert [row.values("mean")[0] for row in rows] == pytest.approx([30, 40, 50])


@pytest.mark.parametrize(
    "other", [spec("erm", recipe="full-batch"), spec("erm", alpha=0.1)], ids=["another recipe", "other data"]
)
def test_one_method_twice_is_two_rows(other):
    own = spec("erm")
    rows = Comparison(((own,), (other,))).rows([run(own, 0.3), run(other, 0.6)])
    assert [row.values("mean") for row in rows] == [pytest.approx([30]), pytest.approx([60])]


def test_the_selection_rule_chooses_each_seeds_checkpoint():
    seeds = tuple(spec("erm", seed) for seed in (0, 1))
    runs = [
        run(seeds[0], 0.7, 0.6, 0.5, validation=(0.1, 0.9, 0.2)),
        run(seeds[1], 0.7, 0.6, 0.5, validation=(0.9, 0.1, 0.2)),
    ]
    for rule, means, shown in [
        ("last", [50, 50], "last"),
        ("training-domain", [60, 70], "training-domain"),
        ("oracle", [70, 70], "oracle (has seen test data)"),
    ]:
        (row,) = Comparison((seeds,), rule).rows(runs)
        assert row.values("mean") == pytest.approx(means)
        assert row.to_json()["selection"] == shown


def test_leave_one_environment_out_uses_the_runs_of_the_same_seed():
    seeds = tuple(spec("erm", seed, betas=[0.1, 0.2, 0.3]) for seed in (0, 1))
    comparison = Comparison((seeds,), "leave-one-environment-out")
    best = {0: (0.9, 0.1, 0.1), 1: (0.1, 0.9, 0.1)}
    runs = [
        run(own, 0.7, 0.6, 0.5, validation=best[own.seed] if own.hold_out else (0.1, 0.1, 0.9))
        for own in comparison.work()
    ]
    assert len(runs) == 8
    (row,) = comparison.rows(runs)
    assert len(row.runs) == 2
    assert row.values("mean") == pytest.approx([70, 60])


def test_a_row_is_what_it_is_whatever_came_first():
    seeds = tuple(spec("erm", seed) for seed in range(3))
    runs = [run(own, 0.1 * (i + 4)) for i, own in enumerate(seeds)]
    assert Comparison((seeds,)).rows(runs) == Comparison((seeds,)).rows(runs[::-1])
    assert isinstance(Comparison((seeds,)).rows(runs)[0], Row)


# Running


def test_two_workers_find_what_one_finds_and_leave_other_processes_alone():
    comparison = Comparison(((spec("erm", 0), spec("erm", 1)), (spec("sparse-irm", 0), spec("sparse-irm", 1))))
    alone = list(comparison.run(workers=1))
    assert [r.spec for r in alone] == comparison.work()
    bystander = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,), daemon=True)
    bystander.start()
    try:
        together = list(comparison.run(workers=2))
        left_alone = bystander.is_alive()
    finally:
        bystander.terminate()
        bystander.join()

    def found(runs: list[Run]) -> dict[tuple[str, int], Run]:
        return {(r.spec.method, r.spec.seed): replace(r, seconds=0) for r in runs}

    assert len(together) == 4
    assert found(together) == found(alone)
    assert not multiprocessing.active_children()
    assert left_alone


def test_an_error_in_a_worker_is_the_error_of_the_comparison():
    one = spec("irmv1", betas=[0.1])
    with pytest.raises(BadValue, match="needs at least 2: with one there is nothing to be invariant across"):
        list(Comparison(((one, replace(one, seed=1)),)).run(workers=2))


@pytest.mark.parametrize(
    "error",
    [
        errors.BadValue("no"),
        errors.DataError("no"),
        errors.Diverged("no"),
        errors.UnknownName.of("method", "irm", ["irmv1"]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_cross_processes_whole(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)


def test_no_worker_is_too_few():
    with pytest.raises(BadValue, match="workers = 0; at least 1 is needed"):
        list(Comparison(((spec("erm"),),)).run(workers=0))
