from dataclasses import replace

import pytest

from invariance.core.environment import Benchmark
from invariance.core.errors import BadValue, InvarianceError, UnknownName
from invariance.core.families import Bernoulli
from invariance.data.two_bit import TwoBit
from invariance.evaluation.scores import Scores
from invariance.experiments.run import execute
from invariance.experiments.spec import Spec
from invariance.training.selection import RULES, Checkpoint, History, label, select


def history(validation: list[float], test: list[float] | None = None) -> History:
    """A checkpoint every ten updates; two environments around each mean."""

    def around(mean: float) -> Scores:
        return Scores({"a": mean - 0.01, "b": mean + 0.01})

    return [
        Checkpoint(10 * (i + 1), loss=1.0, collapsed=False, train=around(0.9), validation=around(v), test=around(t))
        for i, (v, t) in enumerate(zip(validation, test or [0.5] * len(validation), strict=True))
    ]


RUN = history([0.6, 0.9, 0.7, 0.8], [0.5, 0.4, 0.7, 0.6])


@pytest.mark.parametrize(("name", "step"), [("last", 40), ("training-domain", 20), ("oracle", 30)])
def test_each_rule_takes_its_checkpoint(name, step):
    assert select(name, RUN).step == step


def compared(*p_values: float, collapsed: int = -1) -> History:
    """Checkpoints with these p-values of homogeneity; one of them may have collapsed."""
    made = zip(history([0.5] * len(p_values)), p_values, strict=True)
    return tuple(replace(c, homogeneity=p, collapsed=i == collapsed) for i, (c, p) in enumerate(made))


@pytest.mark.parametrize(
    ("run", "step"),
    [
        (compared(0.9, 0.3, 0.2), 30),
        (compared(0.9, 0.001, 0.0002), 20),
        (compared(0.0, 0.9, 0.0009, 0.0), 20),
        (compared(0.2, 0.9, 1.0, collapsed=2), 20),
        (compared(0.0, 0.0001, 0.0004), 30),
        (compared(0.0, 0.0, 1.0, collapsed=2), 30),
    ],
)
def test_invariant_takes_the_latest_that_passes_and_has_not_collapsed_else_the_end(run, step):
    assert select("invariant", run).step == step


def test_invariant_never_takes_a_model_that_was_not_trained_yet():
    first, second, third = compared(0.9, 0.9, 0.0)
    assert select("invariant", (replace(first, trained=False), replace(second, trained=False), third)).step == 30


def test_checkpoints_of_debiasing_say_that_the_model_was_not_trained_yet():
    small = {"data": {"samples": 400}, "recipe": {"epochs": 4, "batch_size": 100}}
    run = execute(Spec.of("two-bit", "env-poe", "debiased", changes=small)).run
    trained = [checkpoint.trained for checkpoint in run.history]
    assert trained == sorted(trained)
    assert {False, True} == set(trained)


def test_invariant_needs_runs_that_compared_environments():
    with pytest.raises(BadValue, match="run it again or select by 'last'"):
        select("invariant", RUN)


def test_leave_one_environment_out_takes_the_moment_that_was_best_in_the_environments_left_out():
    held_out = [history([0.5, 0.6, 0.9, 0.7]), history([0.7, 0.5, 0.4, 0.8])]
    assert select("leave-one-environment-out", RUN, held_out).step == 40
    assert select("leave-one-environment-out", RUN, held_out[:1]).step == 30


def test_leave_one_environment_out_returns_a_checkpoint_of_the_run_itself():
    chosen = select("leave-one-environment-out", RUN, [history([0.9, 0.1, 0.1, 0.1])])
    assert chosen is RUN[0]


def test_leave_one_environment_out_looks_no_further_than_the_shortest_run():
    held_out = [history([0.1, 0.2]), history([0.1, 0.2, 0.9, 0.9])]
    assert select("leave-one-environment-out", RUN, held_out).step == 20


def test_leave_one_environment_out_needs_the_other_runs():
    with pytest.raises(BadValue, match="needs the runs that held each training environment out"):
        select("leave-one-environment-out", RUN)


def test_a_run_that_diverged_before_its_first_checkpoint_cannot_be_selected_by():
    with pytest.raises(InvarianceError) as caught:
        select("leave-one-environment-out", RUN, [history([]), history([0.5, 0.6, 0.7, 0.8])])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["training-domain", "oracle"])
def test_of_equal_checkpoints_the_later_one_is_taken(name):
    assert select(name, history([0.8, 0.9, 0.9, 0.7], [0.8, 0.9, 0.9, 0.7])).step == 30


def test_of_equal_sums_over_environments_left_out_the_later_one_is_taken():
    held_out = [history([0.5, 0.75, 0.25]), history([0.25, 0.25, 0.75])]
    assert select("leave-one-environment-out", history([0.9, 0.1, 0.1]), held_out).step == 30


def test_rules_without_sight_of_the_test_do_not_look_at_it():
    for name in ("invariant", "last", "training-domain"):
        runs = [history([0.6, 0.9, 0.7], test) for test in ([1, 0, 0], [0, 1, 0], [0, 0, 1])]
        steps = {select(name, [replace(c, homogeneity=c.validation.mean - 0.6) for c in run]).step for run in runs}
        assert len(steps) == 1


def test_only_the_oracle_is_shown_to_have_seen_test_data():
    assert label("oracle") == "oracle (has seen test data)"
    assert {name for name in RULES if label(name) != name} == {"oracle"}
    assert {name for name, rule in RULES.items() if rule.sees_test} == {"oracle"}


@pytest.mark.parametrize("use", [lambda name: select(name, RUN), label])
def test_an_unknown_rule_says_what_was_probably_meant(use):
    with pytest.raises(UnknownName, match=r"no selection rule is called 'orakle'. Did you mean 'oracle'\?"):
        use("orakle")


# Leaving environments out


def test_the_environment_left_out_is_validated_on_and_not_trained_on():
    whole = TwoBit(betas=(0.1, 0.2, 0.3), samples=20).load(seed=0)
    rest = whole.holding_out("β=0.2")
    assert [e.name for e in rest.train] == ["β=0.1", "β=0.3"]
    assert rest.validation == (whole.validation[1],)
    assert rest.mechanism is whole.mechanism


def test_without_validation_samples_the_training_samples_of_the_environment_left_out_validate(environments):
    made = environments(4, 5, 6)
    assert Benchmark(Bernoulli(), made).holding_out("b").validation == (made[1],)


def test_an_unknown_environment_cannot_be_left_out(environments):
    with pytest.raises(UnknownName, match=r"no training environment is called 'd'"):
        Benchmark(Bernoulli(), environments(4, 5, 6)).holding_out("d")
