"""What every method does under every recipe."""

from functools import cache
from itertools import combinations, product

import pytest
import torch
from torch import Tensor

from invariance.core.environment import Benchmark
from invariance.data.two_bit import TwoBit
from invariance.experiments.run import execute
from invariance.experiments.spec import Spec
from invariance.methods import METHODS
from invariance.models.mlp import MLP
from invariance.recipes.presets import PRESETS
from invariance.recipes.recipe import Recipe
from invariance.training.train import train

SLOTS = {
    "batch_size": [None, 64],
    "schedule": ["constant", "decay"],
    "gradient": ["plain", "sam"],
    "step": ["adam", "sgd", "lalr"],
    "average": [0.0, 0.3],
}
RECIPES = [dict(zip(SLOTS, values, strict=True)) for values in product(*SLOTS.values())]


def pairs(recipe: dict[str, object]) -> set[frozenset[tuple[str, object]]]:
    """The choices of two slots that a recipe makes together."""
    return {frozenset(pair) for pair in combinations(recipe.items(), 2)}


def covering() -> list[dict[str, object]]:
    """A few recipes in which every two choices meet."""
    left, chosen = {pair for recipe in RECIPES for pair in pairs(recipe)}, []
    while left:
        chosen.append(max(RECIPES, key=lambda recipe: len(pairs(recipe) & left)))
        left -= pairs(chosen[-1])
    return chosen


COVERING = covering()
State = dict[str, Tensor]

every_method = pytest.mark.parametrize("method", METHODS.classes)
every_recipe = pytest.mark.parametrize(
    "slots",
    [
        pytest.param(
            recipe,
            id="-".join(str(value) for value in recipe.values()),
            marks=[] if recipe in COVERING else [pytest.mark.slow],
        )
        for recipe in RECIPES
    ],
)


@cache
def benchmark(method: str) -> Benchmark:
    return TwoBit(samples=64, betas=(0.1, 0.2, 0.4)).load(seed=0, oracle=METHODS[method].oracle)


def states(method: str, slots: dict[str, object], *, turned: bool = False, resume: State | None = None) -> list[State]:
    """The state after each of six updates; the penalty sets in at the third. Debiasing has some before them."""
    lr = {"adam": 0.01, "sgd": 0.01, "lalr": 0.05}[slots["step"]]
    epochs = 6 if slots["batch_size"] is None else 2
    recipe = Recipe(epochs=epochs, lr=lr, warmup=0.34, **slots)
    data = benchmark(method)
    environments = data.train[::-1] if turned else data.train
    model = MLP(width=8, depth=1).build(data.input_shape, 1, seed=9 if resume else 1)
    made = train(
        model, METHODS.create(method), environments, recipe, family=data.family, seed=3, snapshots=100, state=resume
    )
    return [snapshot.state() for snapshot in made]


@cache
def trained(method: str, recipe: int) -> list[State]:
    return states(method, RECIPES[recipe])


def assert_same_bits(a: State, b: State) -> None:
    assert a.keys() == b.keys()
    assert not [name for name in a if not torch.equal(a[name], b[name])]


@every_method
@every_recipe
def test_a_few_updates_move_the_model_and_stay_finite(method, slots):
    first, *_, last = found = trained(method, RECIPES.index(slots))
    steps = [int(state.get("debiasing.step", state["step"])) for state in found]
    assert steps == list(range(1, len(found) + 1))
    assert (len(found) == 6) == (METHODS.create(method).adapted(Recipe()).debias == 0)
    assert all(value.isfinite().all() for state in found for value in state.values())
    weights = [name for name in last if name.startswith("model.") and "weight" in name]
    assert weights
    assert any(not torch.equal(first[name], last[name]) for name in weights)
    assert any(name.startswith("averaged.") for name in last) == (slots["average"] > 0)


@every_method
@every_recipe
def test_a_restored_run_ends_as_the_run_that_went_through_whatever_the_order_of_environments(method, slots):
    """One run for three claims: state is complete, the seed decides, environments may come in any order."""
    found = trained(method, RECIPES.index(slots))
    *_, last = states(method, slots, turned=True, resume=found[2])
    assert_same_bits(last, found[-1])


@every_method
@pytest.mark.parametrize("slots", [RECIPES[0], RECIPES[-1]], ids=["first", "last"])
def test_a_seed_decides_a_run(method, slots):
    assert_same_bits(states(method, slots)[-1], trained(method, RECIPES.index(slots))[-1])


@every_method
def test_every_recipe_makes_another_run(method):
    """A slot that a method ignored would make two of them equal."""
    one_changed = [{**RECIPES[0], slot: value} for slot, values in SLOTS.items() for value in values]
    recipes = [recipe for recipe in RECIPES if recipe in one_changed or recipe in COVERING]
    ends = [trained(method, RECIPES.index(recipe))[-1] for recipe in recipes]
    prints = set()
    for state, slots in zip(ends, recipes, strict=True):
        part = "averaged.module." if slots["average"] else "model."
        used = [value for name, value in state.items() if name.startswith(part)]
        prints.add(b"".join(value.numpy().tobytes() for value in used))
    assert len(prints) == len(recipes)


# Recipes by name


@pytest.mark.parametrize("preset", PRESETS)
@every_method
def test_every_preset_trains_every_method(method, preset):
    small = {"data": {"samples": 40}, "recipe": {"epochs": 2}, "evaluation": {"checkpoints": 1}}
    run = execute(Spec.of("two-bit", method, preset, changes=small)).run
    assert run.status in ("finished", "collapsed"), run.reason
    assert run.history[-1].step >= 2


@pytest.mark.parametrize("preset", PRESETS)
def test_erm_trains_without_debiasing_and_the_same_under_any_name_of_a_preset(monkeypatch, preset):
    monkeypatch.setitem(PRESETS, "another-name", PRESETS[preset])
    small = {"data": {"samples": 40}, "recipe": {"epochs": 2}, "evaluation": {"checkpoints": 1}}
    first, second = (execute(Spec.of("two-bit", "erm", name, changes=small)).run for name in (preset, "another-name"))
    assert first.spec.recipe.debias == 0
    assert first.weights == second.weights


# The invariant optimum


def final(method: str, seed: int) -> tuple[float, float]:
    """Average and gap in percent."""
    spec = Spec.of("two-bit", method, "short", seed, {"evaluation": {"checkpoints": 1}})
    scores = execute(spec).run.history[-1].test
    return 100 * scores.mean, 100 * scores.gap


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", ["irmv1", "irmv0", "rex", "bloc-irm", "env-poe"])
def test_invariant_methods_find_the_invariant_optimum_of_two_bits(method, seed):
    average, gap = final(method, seed)
    assert average == pytest.approx(75, abs=1)
    assert gap <= 2


@pytest.mark.parametrize("seed", [0, 1])
def test_plain_risk_leans_on_the_spurious_bit(seed):
    average, gap = final("erm", seed)
    assert gap > 50
    assert average < 60


def test_the_oracle_is_the_ceiling():
    assert final("grayscale", 0) == (pytest.approx(75, abs=1e-9), pytest.approx(0, abs=1e-9))
