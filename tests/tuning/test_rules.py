from dataclasses import replace

import pytest

from invariance.core.errors import UnknownName
from invariance.evaluation.scores import Scores
from invariance.experiments.run import Run
from invariance.experiments.spec import Spec
from invariance.training.selection import LEVEL, Checkpoint
from invariance.tuning.rules import RULES, judge, labelled, tuning_rule

SPEC = Spec.of("two-bit", "irmv1", "default", 0)


def checkpoint(step: int, *, accuracy=0.7, spread=0.0, test=0.6, gap=0.1, p_value=0.5, collapsed=False) -> Checkpoint:
    validation = Scores({"β=0.1": accuracy + spread / 2, "β=0.2": accuracy - spread / 2})
    tests = Scores({"β=0.05": test + gap / 2, "β=0.95": test - gap / 2})
    return Checkpoint(step, 1.0, collapsed, validation, validation, tests, None, None, 0.5, p_value)


def run(*history: Checkpoint, seed=0, status="finished", hold_out=None) -> Run:
    return Run(replace(SPEC, seed=seed, hold_out=hold_out), status, history, 1.0)


def test_invariant_is_the_accuracy_at_the_latest_checkpoint_that_passes_the_test():
    early, late = checkpoint(1, accuracy=0.8), checkpoint(2, accuracy=0.6)
    failing = checkpoint(3, accuracy=0.9, p_value=LEVEL / 2)
    assert judge("invariant", [run(early, late, failing)]) == ("finished", pytest.approx(60), "")


def test_invariant_prefers_environments_alike_to_a_cue_that_helps_in_both():
    """A cue worth 3 points of accuracy on average, and one point more in one environment than in the other."""
    cue = judge("invariant", [run(checkpoint(1, accuracy=0.73, spread=0.01))])
    alike = judge("invariant", [run(checkpoint(1, accuracy=0.70))])
    assert cue.score == pytest.approx(69.5)
    assert alike.score == pytest.approx(70)


def test_differences_between_environments_that_change_sign_from_seed_to_seed_are_noise():
    noisy = [run(checkpoint(1, spread=0.01)), run(checkpoint(1, spread=-0.01), seed=1)]
    assert judge("invariant", noisy).score == pytest.approx(70)


def test_a_run_whose_environments_differ_throughout_has_no_invariant_score():
    verdict = judge("invariant", [run(checkpoint(1, p_value=0.0), checkpoint(2, p_value=0.0))])
    assert verdict.status == "pruned"
    assert verdict.score is None
    assert "environments differ" in verdict.reason


def test_a_trial_whose_environments_differ_with_one_seed_of_three_has_a_score_and_with_two_none():
    alike, differ = (checkpoint(1, p_value=p_value) for p_value in (0.5, 0.0))
    assert judge("invariant", [run(alike), run(differ, seed=1), run(alike, seed=2)]).status == "finished"
    assert judge("invariant", [run(differ), run(alike, seed=1), run(differ, seed=2)]).status == "pruned"


def test_a_score_is_the_mean_over_seeds():
    runs = [run(checkpoint(1, accuracy=0.6, test=0.5)), run(checkpoint(1, accuracy=0.7, test=0.7), seed=1)]
    assert judge("invariant", runs).score == pytest.approx(65)
    assert judge("oracle", runs).score == pytest.approx(50)


def test_training_domain_is_the_best_validation_accuracy_and_takes_a_cue_that_helps():
    cue = run(checkpoint(1, accuracy=0.7), checkpoint(2, accuracy=0.85, spread=0.1, p_value=0.0))
    assert judge("training-domain", [cue]).score == pytest.approx(85)


def test_a_left_out_environment_is_scored_at_the_checkpoint_that_is_best_in_all_of_them():
    whole = run(checkpoint(1), checkpoint(2))
    held_out = [
        run(checkpoint(1, accuracy=0.8), checkpoint(2, accuracy=0.5), hold_out="β=0.1"),
        run(checkpoint(1, accuracy=0.6), checkpoint(2, accuracy=0.7), hold_out="β=0.2"),
    ]
    assert judge("leave-one-environment-out", [whole, *held_out]).score == pytest.approx(70)


def test_oracle_is_test_accuracy_less_the_gap_and_says_what_it_saw():
    assert judge("oracle", [run(checkpoint(1, test=0.7, gap=0.04))]).score == pytest.approx(66)
    assert labelled("oracle") == "oracle (has seen test data)"


def test_transfer_is_the_same_at_the_checkpoint_that_a_report_would_take():
    kept, failing = checkpoint(1, test=0.6, gap=0.02), checkpoint(2, test=0.9, gap=0.0, p_value=LEVEL / 2)
    assert judge("transfer", [run(kept, failing)]).score == pytest.approx(58)
    assert judge("oracle", [run(kept, failing)]).score == pytest.approx(90)
    assert labelled("transfer") == "transfer (has seen test data)"


@pytest.mark.parametrize("name", [name for name in RULES if name not in ("oracle", "transfer")])
def test_no_other_rule_sees_test_environments(name):
    assert not tuning_rule(name).sees_test
    assert labelled(name) == name

    def runs(test: float) -> list[Run]:
        history = [checkpoint(i, test=test) for i in (1, 2)]
        return [run(*history), *(run(*history, hold_out=e) for e in ("β=0.1", "β=0.2"))]

    assert judge(name, runs(test=0.9)) == judge(name, runs(test=0.1))


@pytest.mark.parametrize("name", RULES)
def test_a_collapsed_or_diverged_seed_is_pruned_and_a_failed_one_fails(name):
    good = run(checkpoint(1)), run(checkpoint(1), hold_out="β=0.1")

    def verdict(bad: Run) -> tuple[str, float | None, str]:
        return judge(name, [*good, bad, replace(bad, spec=replace(bad.spec, hold_out="β=0.1"))])

    assert verdict(run(checkpoint(1, collapsed=True), seed=1)) == ("pruned", None, "collapsed 1 of 2")
    assert verdict(run(seed=1, status="diverged")) == ("pruned", None, "diverged 1 of 2")
    assert verdict(run(seed=1, status="failed")) == ("failed", None, "failed 1 of 2")


def test_an_unknown_rule_is_refused():
    with pytest.raises(UnknownName, match="no tuning rule is called 'oracel'"):
        tuning_rule("oracel")
