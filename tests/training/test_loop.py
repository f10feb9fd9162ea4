import os
import platform
import subprocess
import sys
from collections import Counter

import pytest
import torch
from torch import Tensor, nn

from invariance.core.batch import Batch
from invariance.core.catalogue import defaults
from invariance.core.environment import Environment
from invariance.core.errors import BadValue, Diverged
from invariance.core.families import Bernoulli, Gaussian
from invariance.core.seeding import generator
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.methods.birm import BIRM
from invariance.methods.bloc_irm import BLOCIRM
from invariance.methods.erm import ERM
from invariance.methods.fishr import Fishr
from invariance.methods.grayscale import GrayScale
from invariance.methods.irm_game import IRMGame
from invariance.methods.irmv1 import IRMv1
from invariance.methods.rex import REx
from invariance.methods.sparse_irm import SparseIRM
from invariance.models.base import Model, linear
from invariance.recipes.optimiser import SGD
from invariance.recipes.recipe import Recipe
from invariance.recipes.schedules import Clock
from invariance.training.loop import Training
from invariance.training.sampler import BatchSampler
from invariance.training.train import Snapshot, train

OBJECTIVES = {
    name: METHODS.create(name, {"gamma": 10} if "gamma" in defaults(cls) else {})
    for name, cls in METHODS.classes.items()
} | {
    "irmv1-split": IRMv1(gamma=10, estimator="split"),
    "fishr-ema": Fishr(gamma=10, ema=0.9),
    "birm": BIRM(gamma=10, draws=2, tau=0.3),
    "sparse-irm": SparseIRM(gamma=10, keep=0.5),
    "bloc-irm-adam": BLOCIRM(gamma=10, inner_optimiser="adam", inner_steps=2),
}
INVARIANT = {name: o for name, o in OBJECTIVES.items() if o.needs_environments > 1}


def each(objectives: dict[str, Method]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("objective", objectives.values(), ids=objectives.keys())


def run(model: Model, objective: Method, made: tuple[Environment, ...], recipe: Recipe, **options) -> Snapshot:
    *_, last = train(model, objective, made, recipe, family=Bernoulli(), **options)
    return last


def assert_same_bits(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    assert a.keys() == b.keys()
    different = [name for name in a if not torch.equal(a[name], b[name])]
    assert not different


# The order of the data


def per_environment(order: BatchSampler, batches: range) -> list[list[int]]:
    """Row numbers in the order they are used, environment by environment."""
    rows = torch.stack([order.rows(t) for t in batches])  # [batches, E · each]
    return [part.flatten().tolist() for part in rows.split(order.each, dim=1)]


def test_a_batch_has_equal_counts_of_every_environment():
    order = BatchSampler("abc", [6, 12, 30], batch_size=9, seed=0)
    batch = Batch(torch.zeros(48, 1), torch.zeros(48), (6, 12, 30), Bernoulli())
    for t in range(20):
        assert batch.environment[order.rows(t)].tolist() == [0] * 3 + [1] * 3 + [2] * 3
    assert order.counts == (3, 3, 3)


def test_an_epoch_uses_every_row_once():
    order = BatchSampler("ab", [12, 12], batch_size=8, seed=0)
    for epoch in range(3):
        a, b = per_environment(order, range(3 * epoch, 3 * epoch + 3))
        assert sorted(a) == list(range(12))
        assert sorted(b) == list(range(12, 24))


def test_every_epoch_and_every_environment_has_an_order_of_its_own():
    order = BatchSampler("ab", [12, 12], batch_size=24, seed=0)
    orders = [[row % 12 for row in part] for t in range(2) for part in per_environment(order, range(t, t + 1))]
    assert len({tuple(o) for o in orders}) == 4


def test_a_small_environment_is_used_again_before_a_large_one_is_used_up():
    order = BatchSampler("ab", [4, 10], batch_size=6, seed=0)  # 3 rows of each; neither size is a multiple
    small, large = per_environment(order, range(20))
    assert set(Counter(small).values()) == {15}
    assert set(Counter(large).values()) == {6}
    for start in range(0, 60, 4):
        assert sorted(small[start : start + 4]) == list(range(4))


def test_a_batch_larger_than_an_environment_repeats_its_rows():
    order = BatchSampler("ab", [2, 9], batch_size=10, seed=0)
    assert sorted(order.rows(0)[:4].tolist()) == [0, 0, 1, 1]


def test_batches_are_a_function_of_time_and_not_of_the_past():
    walked, jumped = (BatchSampler("ab", [5, 7], batch_size=4, seed=3) for _ in range(2))
    past = [walked.rows(t) for t in range(12)]
    assert torch.equal(jumped.rows(11), past[11])
    assert torch.equal(jumped.rows(2), past[2])


def test_another_seed_is_another_order():
    first, second = (BatchSampler("ab", [20, 20], batch_size=40, seed=seed).rows(0) for seed in (0, 1))
    assert not torch.equal(first, second)


def test_an_epoch_of_small_batches_has_as_many_updates_as_it_takes(environments, smooth):
    for batch_size, per_epoch in [(None, 1), (24, 1), (8, 3), (7, 4), (100, 1)]:
        recipe = Recipe(epochs=2, batch_size=batch_size)
        assert Training(smooth(), ERM(), environments(12, 12), recipe, Bernoulli(), 0).steps == 2 * per_epoch


def test_the_batch_grows_where_the_penalty_sets_in_and_an_epoch_stays_an_epoch(environments, smooth):
    recipe = Recipe(epochs=6, batch_size=8, penalty_batch_size=24, warmup=0.5)
    training = Training(smooth(), IRMv1(), environments(24, 24), recipe, Bernoulli(), 0)
    assert (training.switch, training.steps) == (3 * 6, 3 * 6 + 3 * 2)
    sizes = [len(training._rows(t).y) for t in range(training.steps)]
    assert sizes == [8] * 18 + [24] * 6


# Slices


def gradients(objective: Method, model: Model, batch: Batch) -> list[Tensor]:
    model = objective.prepare(model, batch.environments, generator(0)).train()
    found = []
    players = {player.name: player for player in objective.players(model)}
    for move in objective.moves(model, batch, Clock(6, 10, 5), generator(1)):
        moving = [p for name in move.players or players for p in players[name].parameters]
        found += torch.autograd.grad(move.loss(), moving, allow_unused=True, materialize_grads=True)
    return found


@pytest.mark.usefixtures("double")
@each(OBJECTIVES)
@pytest.mark.parametrize("deep", [False, True], ids=["linear", "deep"])
@pytest.mark.parametrize("keep", [0, 100], ids=["recomputed", "kept"])
def test_features_in_slices_have_the_gradient_of_one_piece(environments, smooth, objective, deep, keep):
    batch = Batch.of(environments(7, 8), Bernoulli())
    whole, sliced = smooth(deep=deep), smooth(deep=deep)
    sliced.slice, sliced.keep = 4, keep
    calls = []
    sliced.features.register_forward_pre_hook(lambda *_: calls.append(1))
    expected = gradients(objective, whole, batch)
    torch.testing.assert_close(gradients(objective, sliced, batch), expected, rtol=0, atol=1e-12)
    assert any(g.any() for g in expected)
    assert len(calls) >= (4 if keep else 8)  # four slices forward, and again in the backward pass if none was kept


@pytest.mark.usefixtures("double")
def test_dropout_drops_the_same_units_when_a_slice_is_computed_again():
    x = torch.randn(12, 3, generator=generator(0))
    model = Model(nn.Sequential(linear(3, 5, generator(1)), nn.Dropout(0.5)), linear(5, 1, generator(2)))
    model.slice, model.keep = 4, 0
    torch.manual_seed(0)
    z = model.represent(x)
    kept = z != 0
    (weight,) = torch.autograd.grad(z.sum(), model.features[0].weight)
    torch.testing.assert_close(weight, 2 * kept.double().T @ x)


# Resuming


RECIPES = {
    "adam": {},
    "sgd": {"step": "sgd"},
    "lalr": {"step": "lalr", "lr": 0.05},
    "sam": {"gradient": "sam"},
    "average": {"average": 0.7},
    "reset-decay": {"reset": True, "schedule": "decay"},
    "growing-batch": {"epochs": 6, "penalty_batch_size": 12},
}


@each(OBJECTIVES | {"irm-game-stop": IRMGame(stop_below=0.3)})
@pytest.mark.parametrize("changes", RECIPES.values(), ids=RECIPES.keys())
def test_a_run_resumed_anywhere_ends_in_the_same_bits(environments, smooth, objective, changes):
    made = environments(6, 8)
    recipe = Recipe(**{"epochs": 4, "batch_size": 8, "lr": 0.01, "warmup": 0.5} | changes)  # 8 updates
    states = []
    for snapshot in train(smooth(), objective, made, recipe, family=Bernoulli(), seed=5, snapshots=8):
        states.append(snapshot.state())
    torch.manual_seed(123)  # the global state of the other process is not ours
    for state in states[:-1:2]:
        resumed = run(smooth(seed=9), objective, made, recipe, seed=5, state=state)
        assert_same_bits(resumed.state(), states[-1])
    assert any(not torch.equal(states[0][name], value) for name, value in states[-1].items() if "model." in name)


def test_dropout_is_resumed_too(environments):
    def model() -> Model:
        return Model(nn.Sequential(linear(3, 8, generator(0)), nn.Dropout(0.5)), linear(8, 1, generator(1)))

    made, recipe = environments(6, 8), Recipe(epochs=6)
    states = [s.state() for s in train(model(), ERM(), made, recipe, family=Bernoulli(), snapshots=6)]
    torch.manual_seed(123)
    assert_same_bits(run(model(), ERM(), made, recipe, state=states[2]).state(), states[-1])


def test_a_state_is_a_copy(environments, smooth):
    iterator = train(smooth(), REx(), environments(6, 8), Recipe(epochs=4), family=Bernoulli(), snapshots=4)
    state = next(iterator).state()
    before = {name: value.clone() for name, value in state.items()}
    next(iterator)
    assert_same_bits(state, before)


# Determinism


@each(OBJECTIVES | {"irm-game-stop": IRMGame(stop_below=0.01)})
def test_training_neither_uses_nor_changes_the_global_random_state(environments, objective):
    def model() -> Model:
        return Model(nn.Sequential(linear(3, 8, generator(0)), nn.Dropout(0.5)), linear(8, 1, generator(1)))

    states = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        before = torch.random.get_rng_state()
        states.append(run(model(), objective, environments(6, 8), Recipe(epochs=3)).state())
        assert torch.equal(torch.random.get_rng_state(), before)
    assert_same_bits(*states)


def test_numbers_too_small_for_a_processor_are_zero_in_an_update_and_not_after_it(environments, smooth):
    kept = []
    model = smooth()
    model.features.register_forward_hook(lambda *_: kept.append(bool((torch.full((8,), 1e-38) / 100).any())))
    next(train(model, ERM(), environments(6, 8), Recipe(epochs=1), family=Bernoulli()))
    assert kept == [False]
    assert (torch.full((8,), 1e-38) / 100).all()


def test_every_update_and_every_seed_has_noise_of_its_own(environments, smooth):
    scales = []
    for seed in (0, 1):
        recipe = Recipe(epochs=2)
        for snapshot in train(smooth(), BIRM(), environments(6, 8), recipe, family=Bernoulli(), seed=seed):
            scales.append(tuple(snapshot.model.memory.scales.flatten().tolist()))
    assert len(set(scales)) == 4


@each(OBJECTIVES)
@pytest.mark.parametrize("batch_size", [None, 9])
def test_the_order_environments_are_given_in_does_not_matter(environments, smooth, objective, batch_size):
    made = environments(6, 8, 7)
    recipe = Recipe(epochs=3, batch_size=batch_size, lr=0.01)
    first = run(smooth(), objective, made, recipe)
    second = run(smooth(), objective, (made[2], made[0], made[1]), recipe)
    assert_same_bits(first.state(), second.state())


@each({name: OBJECTIVES[name] for name in ("erm", "sparse-irm")})
def test_looking_at_a_snapshot_in_evaluation_mode_does_not_change_the_run(environments, objective):
    def model() -> Model:
        return Model(nn.Sequential(linear(3, 8, generator(0)), nn.Dropout(0.5)), linear(8, 1, generator(1)))

    made, recipe = environments(6, 8), Recipe(epochs=4, lr=0.01)
    undisturbed = run(model(), objective, made, recipe).state()
    for snapshot in train(model(), objective, made, recipe, family=Bernoulli(), snapshots=4):
        snapshot.model.eval()(made[0].x)
    assert_same_bits(snapshot.state(), undisturbed)


# Averaging


@each({name: OBJECTIVES[name] for name in ("erm", "fishr-ema", "irm-game", "bloc-irm-adam")})
@pytest.mark.parametrize("batch_size", [None, 8])
def test_the_averaged_model_is_the_mean_of_the_last_iterates(environments, smooth, objective, batch_size):
    recipe = Recipe(epochs=10 if batch_size is None else 5, batch_size=batch_size, average=0.4, lr=0.02)
    iterates = []
    for snapshot in train(smooth(), objective, environments(8, 8), recipe, family=Bernoulli(), snapshots=10):
        state = snapshot.state()
        iterates.append([state[f"model.{name}"] for name, _ in snapshot.model.named_parameters()])
    assert len(iterates) == 10
    for averaged, *last in zip(snapshot.model.parameters(), *iterates[-4:], strict=True):
        torch.testing.assert_close(averaged.detach(), torch.stack(last).mean(0), rtol=0, atol=1e-6)
    assert not torch.equal(next(snapshot.model.parameters()), iterates[-1][0])


@pytest.mark.parametrize("share", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
def test_as_many_iterates_are_averaged_as_the_share_says(environments, smooth, share):
    last = run(smooth(), ERM(), environments(4, 4), Recipe(epochs=10, average=share))
    assert int(last.state()["averaged.n_averaged"]) == round(10 * share)


def test_without_averaging_the_snapshot_is_the_model_itself(environments, smooth):
    model = smooth()
    assert run(model, ERM(), environments(4, 4), Recipe(epochs=3)).model is model


# Snapshots


def test_snapshots_are_evenly_spaced_and_the_last_update_has_one(environments, smooth):
    def steps(epochs: int, snapshots: int) -> list[int]:
        made = environments(4, 4)
        recipe = Recipe(epochs=epochs)
        return [s.step for s in train(smooth(), ERM(), made, recipe, family=Bernoulli(), snapshots=snapshots)]

    assert steps(12, 4) == [3, 6, 9, 12]
    assert steps(13, 4) == [4, 8, 12, 13]
    assert steps(2, 10) == [1, 2]


def test_a_snapshot_knows_the_loss_of_its_update(environments, smooth):
    made, model = environments(4, 5), smooth()
    batch = Batch.of(made, Bernoulli())
    expected = batch.risks(model(batch.x)).mean().item()
    first = next(train(model, ERM(), made, Recipe(epochs=3), family=Bernoulli()))
    assert first.loss == pytest.approx(expected)


def test_the_penalty_sets_in_after_the_warm_up(environments, smooth):
    made, gamma = environments(6, 8), 1000.0
    objective = REx(gamma=gamma, gamma_before=0.0, divide_by="nothing")
    batch = Batch.of(made, Bernoulli())
    model, losses, penalties = smooth(), [], []
    risks = batch.risks(model(batch.x)).detach()
    recipe = Recipe(epochs=6, warmup=0.5, lr=1e-3)
    for snapshot in train(model, objective, made, recipe, family=Bernoulli(), snapshots=6):
        losses.append(snapshot.loss - risks.mean().item())
        penalties.append(gamma * risks.var(correction=0).item())
        risks = batch.risks(model(batch.x)).detach()
    assert losses[:3] == pytest.approx([0, 0, 0], abs=1e-6)
    assert losses[3:] == pytest.approx(penalties[3:], rel=1e-3)


@pytest.mark.parametrize("reset", [False, True])
def test_reset_starts_a_fresh_optimiser_at_the_switch(environments, smooth, reset):
    recipe = Recipe(epochs=6, warmup=0.5, reset=reset)
    state = run(smooth(), ERM(), environments(4, 4), recipe).state()
    assert float(state["optimiser.model.0.step"]) == (3 if reset else 6)


# What is refused


@each(INVARIANT)
def test_one_environment_is_nothing_to_be_invariant_across(environments, smooth, objective):
    with pytest.raises(BadValue, match="1 training environment and needs at least 2") as caught:
        run(smooth(), objective, environments(6), Recipe(epochs=2))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(objective.title)


@pytest.mark.parametrize("objective", [ERM(), GrayScale()], ids=lambda o: o.title)
def test_one_environment_is_enough_for_plain_risk(environments, smooth, objective):
    model = smooth()
    before = model.head.weight.detach().clone()
    assert run(model, objective, environments(6), Recipe(epochs=2)).step == 2
    assert not torch.equal(model.head.weight, before)


def test_two_environments_of_one_name_are_refused(environments, smooth):
    (a, b) = environments(4, 4)
    with pytest.raises(BadValue, match="different names"):
        run(smooth(), REx(), (a, Environment("a", b.x, b.y)), Recipe(epochs=2))


@pytest.mark.parametrize("gradient", ["plain", "sam"])
def test_a_loss_that_is_not_finite_ends_the_run(environments, smooth, gradient):
    made = environments(5, 6, family=Gaussian())
    recipe = Recipe(lr=1e15, step=SGD(), gradient=gradient)
    with pytest.raises(Diverged, match=r"the loss is (inf|nan) after \d+ updates") as caught:
        list(train(smooth(), ERM(), made, recipe, family=Gaussian()))
    assert "\n" not in str(caught.value)


def test_features_with_batch_normalisation_are_not_cut_into_slices_in_training():
    model = Model(nn.Sequential(linear(3, 5, generator(1)), nn.BatchNorm1d(5)), linear(5, 1, generator(2)))
    x = torch.randn(12, 3, generator=generator(0))
    whole = model.represent(x)
    model.slice, model.keep = 4, 8
    torch.testing.assert_close(model.represent(x), whole)


def test_a_model_with_other_outputs_than_the_family_is_refused(environments):
    model = Model(linear(3, 5, generator(1)), linear(5, 4, generator(2)))
    with pytest.raises(BadValue, match="4 outputs"):
        next(train(model, ERM(), environments(4, 4), Recipe(), family=Bernoulli()))


def test_a_method_whose_features_cannot_move_is_refused(environments, smooth):
    model = smooth()
    model.features.requires_grad_(False)
    with pytest.raises(BadValue, match="without parameters to train"):
        next(train(model, BLOCIRM(), environments(4, 4), Recipe(), family=Bernoulli()))


def test_inputs_are_dropped_up_to_the_switch_where_the_recipe_says_so(environments, smooth):
    recipe = Recipe(epochs=4, warmup=0.5, dropout=0.5, penalty_dropout=0.0)
    training = Training(smooth(), ERM(), environments(30, 30), recipe, Bernoulli(), seed=0)
    whole = []
    for training.step in range(4):
        whole.append(torch.equal(training._batch().x, training.data.x))
    assert whole == [False, False, True, True]


FAULTS = """
import resource, torch
from invariance.core.environment import Environment
from invariance.core.families import Bernoulli
from invariance.methods.fishr import Fishr
from invariance.models.mlp import MLP
from invariance.recipes.presets import recipe
from invariance.training.loop import Training

torch.set_num_threads(1)
data = [Environment(name, torch.rand(1024, 100), torch.arange(1024) % 2) for name in "ab"]
training = Training(MLP().build((100,), 1), Fishr(), data, recipe("small-batch"), Bernoulli(), 0)
training.step = training.switch

def faults(updates):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(updates):
        training.advance()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults(10)
print(faults(20) / 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told to keep memory")
def test_an_update_asks_the_system_for_no_memory_that_the_one_before_had():
    """Fishr's needs 2,700 pages, each of which costs a page fault where it was given back."""
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 300


LARGE = """
from pathlib import Path
{}
import torch

x, flags, here = torch.ones(20_000_000), [], False
for line in Path("/proc/self/smaps").read_text().splitlines():
    if "-" in line.split()[0]:
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        here = start <= x.data_ptr() + x.nbytes // 2 < end
    flags += line.split() * (here and line.startswith("VmFlags"))
print("hg" in flags)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked for large pages")
def test_large_pages_are_asked_for_where_the_user_has_not_decided():
    def asked(first: str, **decided: str) -> str:
        environ = {name: value for name, value in os.environ.items() if name != "THP_MEM_ALLOC_ENABLE"} | decided
        command = [sys.executable, "-c", LARGE.format(first)]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout

    possible = asked("", THP_MEM_ALLOC_ENABLE="1")  # not where the system was built without
    assert asked("import invariance") == possible
    assert asked("import invariance", THP_MEM_ALLOC_ENABLE="0") == "False\n"
    assert asked("") == "False\n"
