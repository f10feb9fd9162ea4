import json
import pickle

import numpy as np
import pytest

from invariance.core import errors
from invariance.core.errors import BadValue
from invariance.evaluation.scores import Scores
from invariance.experiments.comparison import Comparison, ComparisonRow
from invariance.experiments.run import Run
from invariance.experiments.spec import Spec
from invariance.training.selection import Checkpoint

SMALL = {"data": {"samples": 200}, "recipe": {"epochs": 5, "batch_size": 200}}


def spec(method: str, seed: int = 0, recipe: str = "short", **data) -> Spec:
    return Spec.of("two-bit", method, recipe, seed, SMALL | {"data": SMALL["data"] | data})


def checkpoint(step: int, validation: float, test: float, collapsed: bool) -> Checkpoint:
    scores = Scores({"β=0.1": test + 0.1, "β=0.9": test - 0.1})
    return Checkpoint(step, 1.0, collapsed, scores, Scores({"β=0.1": validation}), scores, homogeneity=1.0)


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
    (last,) = Comparison(((only,),), "last").rows([made])
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
        "selection": "invariant",
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
    assert isinstance(Comparison((seeds,)).rows(runs)[0], ComparisonRow)


def test_a_run_that_was_made_under_another_name_of_its_recipe_is_in_its_row():
    """A run is found by its key, and the name of a recipe is not part of it."""
    asked, made = spec("erm", recipe="lsgd"), spec("erm", recipe="full-batch+lsgd")
    assert asked.key == made.key
    (row,) = Comparison(((asked,),)).rows([run(made, 0.6)])
    assert row.values("mean") == pytest.approx([60])


def test_a_seed_that_failed_is_counted_and_not_averaged():
    seeds = tuple(spec("erm", seed) for seed in (0, 1))
    (row,) = Comparison((seeds,)).rows([run(seeds[0], status="failed"), run(seeds[1], 0.6)])
    assert row.status == "failed 1 of 2"
    assert row.values("mean") == pytest.approx([60])
    assert row.to_json()["average"] == pytest.approx(60)


def test_a_seed_whose_held_out_run_failed_is_left_out():
    only = spec("erm", betas=[0.1, 0.15, 0.2])
    first, *rest = (only.holding_out(f"β={beta:g}") for beta in (0.1, 0.15, 0.2))
    runs = [run(only, 0.6), run(first, status="failed"), *(run(s, 0.6) for s in rest)]
    (row,) = Comparison(((only,),), "leave-one-environment-out").rows(runs)
    assert row.status == "failed 1 of 1"


# What is to be run


def test_the_work_is_every_method_with_every_seed():
    methods = (tuple(spec("erm", seed) for seed in (3, 4)), tuple(spec("irmv1", seed) for seed in (3, 4)))
    assert Comparison(methods).work() == [*methods[0], *methods[1]]


def test_leave_one_environment_out_is_refused_with_too_few_environments():
    with pytest.raises(BadValue, match="needs at least three"):
        Comparison(((spec("erm"),),), "leave-one-environment-out").work()


# Errors


@pytest.mark.parametrize(
    "error",
    [
        errors.BadValue("no"),
        errors.DataError("no"),
        errors.StoreError("no"),
        errors.Diverged("no"),
        errors.UnknownName.of("method", "irm", ["irmv1"]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_cross_processes_whole(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
