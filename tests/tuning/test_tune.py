import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import asdict

import optuna
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from invariance.core.errors import BadValue, StoreError, UnknownName
from invariance.experiments.spec import Spec, parse_changes
from invariance.experiments.store import Store
from invariance.recipes.search import IntRange, LogRange, OneOf
from invariance.tuning.rules import RULES
from invariance.tuning.show import figure, table

COLLAPSES = {"method": {"l2": 1e4}, "recipe": {"lr": 1e-2, "epochs": 20, "batch_size": 100}}
EPOCHS = {"recipe.epochs": IntRange(2, 8)}


def studies(bench) -> list[optuna.Study]:
    storage = f"sqlite:///{bench.study}"
    return [optuna.load_study(study_name=name, storage=storage) for name in optuna.get_all_study_names(storage)]


def test_every_trial_is_a_run_of_the_store_with_the_settings_that_the_study_records(bench):
    tuning = bench.tune(trials=4, ranges=EPOCHS)
    (study,) = studies(bench)
    assert len(tuning.trials) == len(study.trials) == 4
    with Store(bench.store) as store:
        for trial in tuning.trials:
            (key,) = trial.keys
            run = store.get(key)
            assert run.spec.method.gamma == trial.settings["method.gamma"]
            assert run.spec.recipe.lr == trial.settings["recipe.lr"]
            assert run.spec.seed == 100
    assert study.user_attrs["data"] == "two-bit"
    assert study.user_attrs["rule"] == "invariant"
    assert study.user_attrs["budget"] == 4
    assert study.user_attrs["fixed"] == ["data.samples=400", "evaluation.checkpoints=2"]
    assert study.user_attrs["space"]["recipe.epochs"] == "int:2:8"


def test_a_stopped_search_goes_on_as_if_it_had_not_been_stopped(benches):
    whole, stopped = benches("whole"), benches("stopped")
    expected = whole.tune(trials=6, ranges=EPOCHS)
    stopped.stop_after = 3
    with pytest.raises(KeyboardInterrupt):
        stopped.tune(trials=6, ranges=EPOCHS)
    stopped.stop_after = None
    resumed = stopped.tune(trials=6, ranges=EPOCHS)
    assert [t.settings for t in resumed.trials] == [t.settings for t in expected.trials]
    assert [t.score for t in resumed.trials] == [t.score for t in expected.trials]
    assert sorted(stopped.done) == sorted(whole.done)  # so none was done twice


class Killed(BaseException):
    """Nothing handles it."""


class Interrupted:
    """An end at the n-th statement that changes a study, or never; counts them."""

    def __init__(self, at: int = 0) -> None:
        self.at, self.count = at, 0

    def __call__(self, connection, cursor, statement: str, *_: object) -> None:
        if statement.startswith(("INSERT", "UPDATE")):
            self.count += 1
            if self.count == self.at:
                raise Killed

    def __enter__(self) -> "Interrupted":
        event.listen(Engine, "before_cursor_execute", self)
        return self

    def __exit__(self, *_: object) -> None:
        event.remove(Engine, "before_cursor_execute", self)


def test_a_search_that_is_killed_while_it_writes_goes_on_as_if_it_had_not_been(benches):
    quick = {"trials": 2, "changes": {"recipe": {"epochs": 1}}}
    with Interrupted() as writes:
        expected = benches("whole").tune("irmv1", **quick)
    assert writes.count > 20
    for at in range(2, writes.count, 13):
        killed = benches(str(at))
        with Interrupted(at), pytest.raises(Killed):
            killed.tune("irmv1", **quick)
        resumed = killed.tune("irmv1", **quick)
        assert [(t.settings, t.score) for t in resumed.trials] == [(t.settings, t.score) for t in expected.trials]
        assert {name: studies(killed)[0].user_attrs[name] for name in ("rule", "space")}.keys() == {"rule", "space"}


def test_trials_that_are_there_count_and_more_may_be_asked_for(bench):
    first = bench.tune(trials=3, ranges=EPOCHS)
    runs = len(bench.done)
    assert bench.tune(trials=3, ranges=EPOCHS).trials == first.trials
    assert bench.tune(trials=2, ranges=EPOCHS).trials == first.trials
    assert len(bench.done) == runs
    more = bench.tune(trials=5, ranges=EPOCHS)
    assert more.trials[:3] == first.trials
    assert len(more.trials) == 5


def test_a_lost_study_costs_no_run_that_is_in_the_store(bench):
    first = bench.tune(trials=3, ranges=EPOCHS)
    bench.study.unlink()
    bench.done.clear()
    again = bench.tune(trials=3, ranges=EPOCHS)
    assert not bench.done
    assert [t.score for t in again.trials] == [t.score for t in first.trials]


def test_another_search_in_the_same_file_is_another_study(bench):
    bench.tune(trials=1)
    for other in ({"seeds": 2}, {"rule": "oracle"}, {"first_seed": 7}, {"ranges": EPOCHS}):
        assert len(bench.tune(trials=1, **other).trials) == 1
    assert len(studies(bench)) == 5


@pytest.mark.parametrize(
    ("changes", "reason"),
    [(COLLAPSES, "collapsed 1 of 1"), ({"recipe": {"lr": 1e30, "step": "sgd"}}, "diverged 1 of 1")],
    ids=["collapsed", "diverged"],
)
@pytest.mark.parametrize("rule", ["invariant", "oracle"])
def test_collapsed_and_diverged_trials_are_pruned_and_never_scored(bench, changes, reason, rule):
    tuning = bench.tune(trials=2, rule=rule, changes=changes)
    (study,) = studies(bench)
    assert {t.state for t in study.trials} == {optuna.trial.TrialState.PRUNED}
    assert {(t.status, t.score, t.reason) for t in tuning.trials} == {("pruned", None, reason)}
    assert tuning.best is None
    assert tuning.to_json()["best"] is None
    assert f"2 × {reason}" in " ".join(table(tuning).notes)
    assert figure(tuning).panels == ()


def test_an_oracle_is_labelled_in_the_study_its_trials_and_every_output(bench):
    label = "oracle (has seen test data)"
    tuning = bench.tune(trials=2, rule="oracle")
    (study,) = studies(bench)
    assert label in study.study_name
    assert study.user_attrs["rule"] == label
    assert study.user_attrs["sees_test"] is True
    assert {t.user_attrs["rule"] for t in study.trials} == {label}
    assert (tuning.to_json()["rule"], tuning.to_json()["sees_test"]) == (label, True)
    for artefact in (table(tuning), figure(tuning)):
        assert label in artefact.title
        assert label in artefact.provenance
    assert "has seen test data" not in str(asdict(table(bench.tune(trials=2))))


def test_environments_are_left_out_where_there_are_three_and_refused_where_there_are_two(bench):
    three = {"data": {"samples": 400, "betas": [0.1, 0.2, 0.3]}}
    tuning = bench.tune(trials=1, rule="leave-one-environment-out", changes=three, ranges=EPOCHS)
    assert len(tuning.trials[0].keys) == 4
    assert tuning.best is None or 0 < tuning.best.score < 100
    with pytest.raises(BadValue, match="needs at least three"):
        bench.tune(trials=1, rule="leave-one-environment-out")


def test_the_options_of_the_best_trial_give_its_run_again(bench):
    changes = {"method": {"reduction": "sum"}, "recipe": {"epochs": 3}}
    tuning = bench.tune("irmv1", trials=3, rule="oracle", changes=changes)
    words = shlex.split(tuning.options)
    assert words[:2] == ["--recipe", "default"]
    settings = [word for option, word in zip(words[2::2], words[3::2], strict=True) if option == "--set"]
    assert {"method.reduction=sum", "recipe.epochs=3"} < set(settings)
    assert not any(setting.startswith(("data.", "evaluation.")) for setting in settings)  # they do not transfer
    where = ["data.samples=400", "evaluation.checkpoints=2"]
    spec = Spec.of("two-bit", "irmv1", words[1], 100, parse_changes([*where, *settings]))
    assert tuning.best.keys == (spec.key,)


def test_a_fixed_field_is_not_searched_and_a_range_of_ones_own_is(bench):
    ranges = {"method.gamma": LogRange(1.0, 2.0), "recipe.penalty_batch_size": OneOf((None, 200))}
    tuning = bench.tune(trials=5, changes={"recipe": {"epochs": 2}}, ranges=ranges)
    assert "recipe.epochs" not in tuning.search.space
    later = [t.settings for t in tuning.trials]
    assert all(1 <= settings["method.gamma"] <= 2 for settings in later)
    assert {settings["recipe.penalty_batch_size"] for settings in later} <= {None, 200}


def test_what_mattered_is_told_from_what_did_not(bench):
    """ERM's validation risk after a single epoch depends on its learning rate, and on the weight decay hardly."""
    tuning = bench.tune(
        "erm",
        trials=24,
        changes={"recipe": {"epochs": 1, "batch_size": 50}, "data": {"samples": 400, "betas": [0.1, 0.100001]}},
        ranges={"method.l2": LogRange(1e-9, 1e-8)},
    )
    assert len(tuning.ranked) >= 8
    assert list(tuning.importances) == ["recipe.lr", "method.l2"]
    lr, l2 = (sum(shares) / len(shares) for shares in tuning.importances.values())
    assert lr > 0.8 > l2
    assert [panel.title for panel in figure(tuning).panels] == ["importance", "lr", "l2"]
    assert [line.label for line in table(tuning).lines] == [str(t.number) for t in tuning.ranked[:10]]


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"method": "irmv9"}, UnknownName, "no method is called 'irmv9'"),
        ({"rule": "last"}, UnknownName, "no tuning rule is called 'last'"),
        ({"recipe": "shrot"}, UnknownName, "no recipe is called 'shrot'. Did you mean 'short'?"),
        ({"ranges": {"recipe.lrr": LogRange(1, 2)}}, UnknownName, "Did you mean 'lr'?"),
        ({"ranges": {"lr": LogRange(1, 2)}}, BadValue, "write SECTION.FIELD=VALUE"),
        ({"ranges": {"recipe.warmup": LogRange(1, 2)}}, BadValue, "warmup = 2"),
        ({"seeds": 0}, BadValue, "seeds = 0"),
        ({"method": "erm", "changes": {"recipe": {"lr": 0.1, "epochs": 2}}}, BadValue, "leave one of them free"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_cannot_be_searched_is_refused_in_one_line_before_anything_is_written(bench, options, error, said):
    with pytest.raises(error) as caught:
        bench.tune(**options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not bench.study.exists()
    assert not bench.store.exists()


@pytest.mark.parametrize("content", ["runs", "another program's", "text", "no folder"])
def test_a_file_that_holds_no_study_is_refused_and_left_alone(bench, content):
    match content:
        case "runs":
            Store(bench.study).close()
        case "another program's":
            with closing(sqlite3.connect(bench.study)) as connection:
                connection.execute("CREATE TABLE letters (text TEXT)")
        case "text":
            bench.study.write_text("not a database, but long enough to be read as one " * 20)
        case "no folder":
            bench.study = bench.study.parent / "nowhere" / "tune.db"
    before = bench.study.read_bytes() if bench.study.exists() else None
    with pytest.raises((StoreError, BadValue)) as caught:
        bench.tune(trials=1)
    assert str(bench.study) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert before is None or bench.study.read_bytes() == before


def test_without_optuna_there_is_a_hint():
    code = """
import sys
sys.modules["optuna"] = None
from invariance import BadValue, tune
try:
    tune("two-bit", "rex")
except BadValue as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "tuning needs Optuna: pip install 'invariance[tune]'\n"


def test_rules_are_those_that_the_command_names():
    from typer.testing import CliRunner

    from invariance.cli import app

    shown = " ".join(CliRunner().invoke(app, ["tune", "--help"], env={"COLUMNS": "200"}).output.split())
    assert all(name in shown for name in RULES)
