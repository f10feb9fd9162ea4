import json

import numpy as np
import pytest

from invariance.evaluation.scores import Scores
from invariance.experiments.run import Run
from invariance.experiments.selected_runs import SelectedRuns
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


def test_a_run_that_collapsed_at_its_end_counts_where_an_earlier_checkpoint_is_taken():
    only = spec("erm")
    made = run(only, 0.7, 0.1, status="collapsed", validation=(0.9, 0.5))
    last = SelectedRuns.of([made], "last")
    best = SelectedRuns.of([made], "training-domain")
    assert (last.status, last.values("mean")) == ("collapsed 1 of 1", [])
    assert (best.status, best.values("mean")) == ("finished", pytest.approx([70]))


def test_a_seed_whose_held_out_run_diverged_is_left_out_and_the_others_stay():
    seeds = tuple(spec("erm", seed, betas=[0.1, 0.15, 0.2]) for seed in (0, 1))
    held = [s.holding_out(f"β={beta:g}") for s in seeds for beta in (0.1, 0.15, 0.2)]
    runs = [*(run(s, 0.6, 0.7) for s in (*seeds, *held[1:])), run(held[0], status="diverged")]
    row = SelectedRuns.of(runs, "leave-one-environment-out")
    assert row.status == "diverged 1 of 2"
    assert row.values("mean") == pytest.approx([70])


def test_a_row_averages_its_seeds_in_percent():
    seeds = tuple(spec("erm", seed) for seed in (3, 4))
    row = SelectedRuns.of([run(seeds[1], 0.1, 0.7), run(seeds[0], 0.9, 0.5)], "invariant")
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
    row = SelectedRuns.of(runs, "invariant")
    assert row.status == "collapsed 2 of 4, diverged 1 of 4"
    assert row.values("mean") == pytest.approx([60])
    plain = row.to_json()
    assert plain["seeds"] == 4
    assert plain["average"] == pytest.approx(60)


def test_a_method_without_a_finished_seed_has_no_average():
    own = spec("erm")
    row = SelectedRuns.of([run(own, status="diverged")], "invariant")
    assert row.status == "diverged 1 of 1"
    assert row.curve() == {}
    assert {name: row.to_json()[name] for name in ("average", "worst", "gap", "average_std")} == dict.fromkeys(
        ("average", "worst", "gap", "average_std")
    )


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
        row = SelectedRuns.of(runs, rule)
        assert row.values("mean") == pytest.approx(means)
        assert row.to_json()["selection"] == shown


def test_leave_one_environment_out_uses_the_runs_of_the_same_seed():
    seeds = tuple(spec("erm", seed, betas=[0.1, 0.2, 0.3]) for seed in (0, 1))
    every = [*seeds, *(s.holding_out(f"β={beta:g}") for s in seeds for beta in (0.1, 0.2, 0.3))]
    best = {0: (0.9, 0.1, 0.1), 1: (0.1, 0.9, 0.1)}
    runs = [run(s, 0.7, 0.6, 0.5, validation=best[s.seed] if s.hold_out else (0.1, 0.1, 0.9)) for s in every]
    row = SelectedRuns.of(runs, "leave-one-environment-out")
    assert len(row.runs) == 2
    assert row.values("mean") == pytest.approx([70, 60])


def test_a_row_is_what_it_is_whatever_came_first():
    seeds = tuple(spec("erm", seed) for seed in range(3))
    runs = [run(own, 0.1 * (i + 4)) for i, own in enumerate(seeds)]
    assert SelectedRuns.of(runs, "invariant") == SelectedRuns.of(runs[::-1], "invariant")


def test_a_seed_that_failed_is_counted_and_not_averaged():
    seeds = tuple(spec("erm", seed) for seed in (0, 1))
    row = SelectedRuns.of([run(seeds[0], status="failed"), run(seeds[1], 0.6)], "invariant")
    assert row.status == "failed 1 of 2"
    assert row.values("mean") == pytest.approx([60])
    assert row.to_json()["average"] == pytest.approx(60)


def test_a_seed_whose_held_out_run_failed_is_left_out():
    only = spec("erm", betas=[0.1, 0.15, 0.2])
    first, *rest = (only.holding_out(f"β={beta:g}") for beta in (0.1, 0.15, 0.2))
    runs = [run(only, 0.6), run(first, status="failed"), *(run(s, 0.6) for s in rest)]
    row = SelectedRuns.of(runs, "leave-one-environment-out")
    assert row.status == "failed 1 of 1"


def test_runs_that_held_an_environment_out_count_only_where_the_rule_looks_at_them():
    only = spec("erm", betas=[0.1, 0.15, 0.2])
    runs = [run(only, 0.6), run(only.holding_out("β=0.1"), status="failed")]
    assert SelectedRuns.of(runs, "last").status == "finished"
    assert SelectedRuns.of(runs, "leave-one-environment-out").status == "failed 1 of 1"
