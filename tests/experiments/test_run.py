import json
import math
import time
from dataclasses import replace

import pytest
import torch

from invariance.core.environment import Benchmark
from invariance.core.errors import BadValue
from invariance.evaluation.diagnostics import scores_and_diagnostics
from invariance.evaluation.landscape import landscape
from invariance.evaluation.scores import Scores
from invariance.experiments.run import (
    SNAPSHOTS,
    LoadedData,
    ResumeState,
    Run,
    digest,
    execute,
    load_benchmark,
    measure,
    resume_state,
)
from invariance.experiments.selected_runs import SelectedRuns
from invariance.experiments.spec import Spec
from invariance.methods import METHODS
from invariance.recipes.recipe import Recipe
from invariance.training.selection import History
from invariance.training.train import Snapshot, train

VARIANTS = {name: {} for name in METHODS.classes} | {
    "fishr with a moving average": {"ema": 0.9},
    "bloc-irm with Adam": {"inner_optimiser": "adam"},
    "irm-game that stops": {"stop_below": 0.99},
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def small(method: str = "irmv1", /, seed: int = 0, **sections) -> Spec:
    data = {"samples": 300, **sections.pop("data", {})}
    recipe = {"epochs": 6, "batch_size": 200, **sections.pop("recipe", {})}
    return Spec.of("two-bit", method, "short", seed, {"data": data, "recipe": recipe, **sections})


@pytest.mark.parametrize("method", METHODS.classes)
def test_a_seed_decides_everything(method):
    first, again, other = (execute(small(method, seed)) for seed in (0, 0, 1))
    assert first.run.history == again.run.history
    assert first.run.history != other.run.history
    weights, same, different = (executed.model.state_dict() for executed in (first, again, other))
    assert weights.keys() == same.keys()
    assert all(torch.equal(weights[name], same[name]) for name in weights)
    assert any(not torch.equal(weights[name], different[name]) for name in weights)


@pytest.mark.parametrize("method", ["erm", "birm", "irm-game"])
def test_a_run_is_the_training_loop_with_the_seed_of_the_spec(method):
    spec = small(method, seed=5)
    benchmark = spec.data.load(5)
    model = spec.model.build(benchmark.input_shape, 1, seed=5)
    for snapshot in train(model, spec.method, benchmark.train, spec.recipe, family=benchmark.family, seed=5):
        weights = snapshot.model.state_dict()
    found = execute(spec).model.state_dict()
    assert all(torch.equal(weights[name], found[name]) for name in found)


def test_a_run_measures_at_every_checkpoint_and_reports_its_progress_more_often():
    reported: list[tuple[Snapshot, History, float]] = []
    spec = small("erm", recipe={"epochs": 60}, evaluation={"checkpoints": 6})
    executed = execute(spec, lambda *progress: reported.append(progress))
    run = executed.run
    assert run.status == "finished"
    assert [c.step for c in run.history] == [30, 60, 90, 120, 150, 180]
    assert [snapshot.step for snapshot, _, _ in reported] == list(range(2, 181, 2))
    assert [progress[0].step for progress in reported if resume_state(*progress)] == [30, 60, 90, 120, 150, 180]
    assert [len(history) for snapshot, history, _ in reported if snapshot.step % 30 == 0] == [1, 2, 3, 4, 5, 6]
    assert reported[-1][0].model is executed.model
    final = run.history[-1]
    assert list(final.train.by_environment) == list(final.validation.by_environment) == ["β=0.1", "β=0.2"]
    assert len(final.test.by_environment) == len(final.sampled.by_environment) == 19
    assert final.test.agree > final.test.oppose
    assert set(final.diagnostics.risks) == {"β=0.1", "β=0.2"}
    assert final.loss < run.history[0].loss
    assert run.weights == digest(executed.model)
    assert 0 < reported[0][2] < reported[-1][2] <= run.seconds


@pytest.mark.parametrize("checkpoints", [1, 2, 7, 10, 1000])
@pytest.mark.parametrize("epochs", [1, 6, 17])
def test_checkpoints_are_evenly_spaced_and_the_end_is_always_one(epochs, checkpoints):
    recipe = {"epochs": epochs, "batch_size": 20}
    run = execute(small("erm", data={"samples": 30}, recipe=recipe, evaluation={"checkpoints": checkpoints})).run
    steps = epochs * 3
    found = [c.step for c in run.history]
    tick = math.ceil(steps / max(SNAPSHOTS, checkpoints))
    assert found[-1] == steps
    assert len(found) == min(checkpoints, math.ceil(steps / tick))
    wanted = [steps * (i + 1) / len(found) for i in range(len(found))]
    assert all(0 <= step - even < tick for step, even in zip(found, wanted, strict=True))


@every_variant
@pytest.mark.parametrize("average", [0.0, 0.5])
def test_how_often_a_run_is_measured_does_not_change_it(variant, average):
    method, fields = variant.split()[0], {"method": VARIANTS[variant], "recipe": {"epochs": 4, "average": average}}
    often, seldom = (execute(small(method, evaluation={"checkpoints": n}, **fields)).run for n in (10, 2))
    assert len(often.history) > len(seldom.history)
    assert often.weights == seldom.weights
    assert often.history[-1] == seldom.history[-1]


def test_only_the_first_samples_of_the_training_environments_are_looked_at():
    few, all_of_them = (
        execute(small("erm", recipe={"epochs": 60}, evaluation={"train_rows": rows})).run for rows in (7, 300)
    )
    shares = few.history[-1].train.by_environment.values()
    assert all(7 * share == pytest.approx(round(7 * share)) for share in shares)
    assert few.history[-1].train != all_of_them.history[-1].train
    assert few.history[-1].test == all_of_them.history[-1].test
    assert few.weights == all_of_them.weights


def test_a_landscape_is_drawn_where_it_is_asked_for():
    spec = small("erm", evaluation={"landscape": 3})
    executed = execute(spec)
    assert executed.run.landscape == landscape(executed.model, executed.benchmark, 3, spec.seed)
    assert [len(row) for row in executed.run.landscape] == [3, 3, 3]
    assert digest(executed.model) == executed.run.weights
    assert execute(small("erm")).run.landscape is None


# Going on


def kept(spec: Spec) -> tuple[Run, list[ResumeState]]:
    """A run, and what would have been kept at each of its checkpoints."""
    partials: list[ResumeState | None] = []
    run = execute(spec, lambda *progress: partials.append(resume_state(*progress))).run
    return replace(run, seconds=0.0), [partial for partial in partials if partial]


@every_variant
@pytest.mark.parametrize(
    "recipe", [{}, {"batch_size": None, "epochs": 12, "average": 0.5}], ids=["batches", "averaged"]
)
def test_a_run_goes_on_from_a_checkpoint_as_if_it_had_never_stopped(variant, recipe):
    evaluation = {"checkpoints": 4, "landscape": 2}
    method = variant.split()[0]
    spec = small(method, 1, method=VARIANTS[variant], recipe={"epochs": 4} | recipe, evaluation=evaluation)
    whole, partials = kept(spec)
    assert len(partials) == len(whole.history)
    for partial in (partials[len(partials) // 2], partials[-1]):
        assert replace(execute(spec, resume_from=partial).run, seconds=0.0) == whole


def test_a_run_that_diverges_does_so_after_going_on_too():
    recipe = {"lr": 3e3, "step": "sgd", "epochs": 20, "batch_size": None}
    spec = small("erm", recipe=recipe, evaluation={"checkpoints": 20})
    whole, partials = kept(spec)
    assert whole.status == "diverged"
    assert repr(replace(execute(spec, resume_from=partials[1]).run, seconds=0.0)) == repr(
        whole
    )  # of which some are NaN


def test_seconds_add_up_over_interruptions():
    spec = small("erm")
    _, partials = kept(spec)
    start = time.perf_counter()
    total = execute(spec, resume_from=partials[0]._replace(seconds=100.0)).run.seconds
    assert 100 < total < 100 + time.perf_counter() - start


def test_the_model_of_an_averaging_recipe_is_the_averaged_one():
    recipe = {"average": 0.5, "lr": 0.05}
    averaged, plain = execute(small("erm", recipe=recipe)), execute(small("erm", recipe=recipe | {"average": 0.0}))
    assert not torch.equal(averaged.model.head.weight, plain.model.head.weight)


def test_only_an_oracle_is_given_inputs_without_their_spurious_part():
    for method, cls in METHODS.classes.items():
        executed = execute(small(method, recipe={"epochs": 1}))
        assert executed.benchmark.input_shape == ((1,) if cls.oracle else (2,))


def test_data_are_loaded_once_for_runs_that_see_the_same_and_again_for_others():
    loaded, three = LoadedData(), {"data": {"betas": (0.1, 0.2, 0.3)}}
    spec = small(**three)
    first = loaded.of(spec)
    assert loaded.of(small("rex", method={"gamma": 7.0}, **three)) is first
    for other in (small(seed=1, **three), small("grayscale", **three), replace(spec, hold_out=first.train[0].name)):
        again, expected = loaded.of(other), load_benchmark(other)
        assert again is not first
        assert all(torch.equal(a.x, b.x) for a, b in zip(again.train, expected.train, strict=True))


def test_a_run_on_data_that_are_there_is_the_same():
    loaded = LoadedData()
    alone, first, again = (execute(small(), loaded=each).run for each in (None, loaded, loaded))
    assert alone.history == first.history == again.history
    assert alone.weights == first.weights == again.weights


def test_an_environment_held_out_is_not_trained_on():
    spec = small("rex", data={"betas": [0.1, 0.2, 0.3]}).holding_out("β=0.2")
    final = execute(spec).run.history[-1]
    assert list(final.train.by_environment) == ["β=0.1", "β=0.3"]
    assert list(final.validation.by_environment) == ["β=0.2"]


# How runs end


def test_a_run_that_leaves_the_finite_numbers_has_diverged():
    executed = execute(small("erm", recipe={"lr": 1e30, "step": "sgd", "epochs": 20}))
    run = executed.run
    assert run.status == "diverged"
    assert "the loss is" in run.reason
    assert "\n" not in run.reason
    assert not run.history


def test_what_was_measured_before_a_run_diverged_is_kept():
    recipe = {"lr": 3e3, "step": "sgd", "epochs": 20, "batch_size": None}
    run = execute(small("erm", recipe=recipe, method={"l2": 1e-3}, evaluation={"checkpoints": 20})).run
    assert run.status == "diverged"
    assert 0 < len(run.history) < 20
    assert [c.step for c in run.history] == list(range(1, len(run.history) + 1))


def test_a_run_that_ends_as_a_constant_has_collapsed():
    run = execute(small("erm", method={"l2": 100.0}, recipe={"epochs": 60})).run
    assert run.status == "collapsed"
    assert run.reason
    assert run.history[-1].collapsed
    assert max(run.history[-1].validation.by_environment.values()) < 0.6


def test_a_run_that_recovers_has_not_collapsed():
    run = execute(small("erm", recipe={"epochs": 40, "lr": 0.01})).run
    assert run.status == "finished"
    assert not run.history[-1].collapsed


def test_one_environment_is_refused_and_not_a_status():
    with pytest.raises(BadValue, match="at least 2"):
        execute(small("irmv1", data={"betas": [0.1]}))


# Plain data


@pytest.mark.parametrize(
    "spec",
    [
        small("bloc-irm"),
        small("erm", recipe={"lr": 1e30, "step": "sgd", "epochs": 20}),
        small("erm", method={"l2": 100.0}, recipe={"epochs": 60}),
    ],
    ids=["finished", "diverged", "collapsed"],
)
def test_a_run_survives_json(spec):
    run = execute(spec).run
    text = json.dumps(run.to_json(), allow_nan=False)
    assert Run.from_json(json.loads(text)) == run
    assert run.spec == spec
    assert isinstance(run.spec.recipe, Recipe)


def test_a_landscape_survives_json():
    run = execute(small("irmv1", evaluation={"landscape": 3})).run
    assert Run.from_json(json.loads(json.dumps(run.to_json()))) == run


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf], ids=str)
def test_numbers_that_are_not_finite_survive_json(number):
    run = execute(small("irmv1")).run
    first, *rest = run.history
    odd = replace(
        first,
        loss=number,
        test=Scores({"β=0.1": number, "β=0.9": 0.5}, agree=number, oppose=0.5),
        diagnostics=replace(first.diagnostics, risks={"β=0.1": number}, penalty=number, logit_scale=number),
    )
    run = replace(run, history=(odd, *rest), landscape=((0.5, number), (number, 0.25)))
    again = Run.from_json(json.loads(json.dumps(run.to_json())))
    assert repr(again) == repr(run)
    assert type(again.history[0].diagnostics.penalty) is float


def test_what_is_measured_on_training_samples_keeps_their_weights():
    spec = small("irmv1")
    made = execute(spec).benchmark
    weighted = tuple(replace(e, weight=torch.linspace(0.1, 5, len(e))) for e in made.train)
    benchmark = Benchmark(made.family, weighted, mechanism=made.mechanism)
    model = spec.model.build(benchmark.input_shape, 1, 0)
    *_, last = train(model, spec.method, weighted, spec.recipe, family=made.family, snapshots=1)
    checkpoint = measure(last, benchmark, spec)
    _, expected = scores_and_diagnostics(last.model, spec.method, weighted, made.family)
    _, unweighted = scores_and_diagnostics(last.model, spec.method, made.train, made.family)
    assert checkpoint.diagnostics == expected != unweighted
    assert checkpoint.train == checkpoint.validation


def test_a_run_whose_debiasing_found_nothing_says_so_in_its_record():
    runs = []
    for betas in ((0.1, 0.3), (0.2, 0.201)):
        data = {"betas": betas, "samples": 3000}
        spec = Spec.of("two-bit", "env-poe", "short", 0, {"data": data, "evaluation": {"checkpoints": 1}})
        runs.append(Run.from_json(json.loads(json.dumps(execute(spec).run.to_json()))))
    assert [run.status for run in runs] == ["finished"] * 2
    assert runs[0].reason == ""
    assert "without a logit offset" in runs[1].reason
    assert SelectedRuns.of(runs[1:], "last").note == "no logit offset in 1 of 1"
