import json

import pytest
import torch

from invariance.errors import BadValue
from invariance.experiments.run import Run, execute
from invariance.experiments.spec import Spec
from invariance.objectives import METHODS
from invariance.recipes.recipe import Recipe
from invariance.training import Snapshot, train


def small(method: str = "irmv1", seed: int = 0, **sections) -> Spec:
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
    for snapshot in train(model, spec.objective, benchmark.train, spec.recipe, family=benchmark.family, seed=5):
        weights = snapshot.model.state_dict()
    found = execute(spec).model.state_dict()
    assert all(torch.equal(weights[name], found[name]) for name in found)


def test_a_run_measures_every_snapshot():
    told: list[Snapshot] = []
    executed = execute(small("erm"), told.append, snapshots=6)
    run = executed.run
    assert run.status == "finished"
    assert [c.step for c in run.history] == [s.step for s in told] == [3, 6, 9, 12, 15, 18]
    assert told[-1].model is executed.model
    final = run.history[-1]
    assert list(final.train.by_environment) == list(final.validation.by_environment) == ["β=0.1", "β=0.2"]
    assert len(final.test.by_environment) == 19
    assert final.loss < run.history[0].loss
    assert run.seconds > 0


def test_the_model_of_an_averaging_recipe_is_the_averaged_one():
    recipe = {"average": 0.5, "lr": 0.05}
    averaged, plain = execute(small("erm", recipe=recipe)), execute(small("erm", recipe=recipe | {"average": 0.0}))
    assert not torch.equal(averaged.model.head.weight, plain.model.head.weight)


def test_only_an_oracle_is_given_inputs_without_their_spurious_part():
    for method, cls in METHODS.classes.items():
        executed = execute(small(method, recipe={"epochs": 1}))
        assert executed.benchmark.input_shape == ((1,) if cls.oracle else (2,))


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
    run = execute(small("erm", recipe=recipe, objective={"l2": 1e-3}), snapshots=20).run
    assert run.status == "diverged"
    assert 0 < len(run.history) < 20
    assert [c.step for c in run.history] == list(range(1, len(run.history) + 1))


def test_a_run_that_ends_as_a_constant_has_collapsed():
    run = execute(small("erm", objective={"l2": 100.0}, recipe={"epochs": 60})).run
    assert run.status == "collapsed"
    assert run.reason
    assert run.history[-1].collapsed
    assert max(run.history[-1].validation.by_environment.values()) < 0.6


def test_a_run_that_recovers_has_not_collapsed():
    run = execute(small("erm", recipe={"epochs": 40, "lr": 0.01}), snapshots=20).run
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
        small("erm", objective={"l2": 100.0}, recipe={"epochs": 60}),
    ],
    ids=["finished", "diverged", "collapsed"],
)
def test_a_run_survives_json(spec):
    run = execute(spec).run
    text = json.dumps(run.to_json(), allow_nan=False)
    assert Run.from_json(json.loads(text)) == run
    assert run.spec == spec
    assert isinstance(run.spec.recipe, Recipe)
