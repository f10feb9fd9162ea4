from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import nn

from invariance.core.batch import Batch
from invariance.core.environment import Environment
from invariance.core.families import Bernoulli, Gaussian
from invariance.data.two_bit import TwoBit
from invariance.evaluation.scores import exact
from invariance.methods.base import Method
from invariance.methods.env_poe import EnvPoE
from invariance.methods.erm import ERM
from invariance.methods.irmv1 import IRMv1
from invariance.models.base import Model
from invariance.models.linear import Linear
from invariance.recipes.recipe import Recipe
from invariance.recipes.schedules import Clock
from invariance.training.biased_expert import log_posterior
from invariance.training.debiasing import EnvironmentClassification, environment_classifier, stage, training_part
from invariance.training.interaction import FOLD
from invariance.training.train import Snapshot, train


def test_the_environment_classifier_minimises_cross_entropy_given_input_and_label():
    x = torch.randn(100, 1, generator=torch.Generator().manual_seed(0))
    data = Batch(x, (x.squeeze(1) > 0).float(), (50, 50), Bernoulli())
    model = Model(nn.Linear(1, 3), nn.Linear(3, 4))
    (move,) = EnvironmentClassification().moves(model, data, Clock(0, 1, 0), torch.Generator())
    table = log_posterior(model(data.x), 2)
    surprise = [-table[i, int(data.y[i]), int(data.environment[i])] for i in range(100)]
    assert move.loss().item() == pytest.approx(torch.stack(surprise).mean().item(), rel=1e-5)


def test_the_environment_classifier_starts_fresh_and_depends_on_the_seed_alone():
    made = TwoBit(samples=20).load(0).train
    model = Linear().build((2,), 1)
    first, second, other = (environment_classifier(model, made, Bernoulli(), seed) for seed in (0, 0, 1))
    assert first.head.out_features == 4
    assert torch.equal(first.head.weight, second.head.weight)
    assert not torch.equal(first.head.weight, other.head.weight)
    assert first.features is not model.features


@pytest.mark.parametrize("rows", [5, 6, 9, 10, 11])
def test_one_row_in_five_is_kept_from_the_environment_classifier(rows):
    part = training_part(Environment("e", torch.arange(rows).float().unsqueeze(1), torch.zeros(rows)))
    assert part.x.squeeze(1).tolist() == [i for i in range(rows) if i % FOLD]


def weighted(weight: torch.Tensor | None, name: str, seed: int) -> Environment:
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(seed))
    return Environment(name, x, (x[:, 0] > 0).float(), weight)


def test_the_environment_classifier_trains_with_the_weights_of_its_rows():
    made = [weighted(torch.arange(1.0, 21), "a", 0), weighted(torch.full((20,), 3.0), "b", 1)]
    part = training_part(made[0])
    assert part.weight is not None
    assert part.weight.tolist() == [i + 1.0 for i in range(20) if i % FOLD]
    training = stage(Model(nn.Linear(3, 3), nn.Linear(3, 1)), made, recipe(2), Bernoulli(), 0)
    assert training is not None
    assert training.data.weight is not None
    assert training.data.weight.sum() == part.weight.sum() + 16 * 3


def test_a_weight_of_two_is_two_rows_in_the_loss_of_the_environment_classifier():
    twice = torch.arange(1, 21) % 2 + 1
    model = Model(nn.Linear(3, 3), nn.Linear(3, 4))
    losses = []
    for made in (
        [weighted(twice.float(), "a", 0), weighted(twice.float(), "b", 1)],
        [weighted(None, name, seed).take(torch.arange(20).repeat_interleave(twice)) for seed, name in enumerate("ab")],
    ):
        data = Batch.of(made, Bernoulli())
        (move,) = EnvironmentClassification().moves(model, data, Clock(0, 1, 0), torch.Generator())
        losses.append(move.loss().item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def recipe(debias: int) -> Recipe:
    return Recipe(batch_size=500, epochs=6, lr=1e-2, warmup=0.0, debias=debias, schedule={"kind": "decay"})


def fresh() -> Model:
    return Linear().build((2,), 1)


def test_erm_leans_on_the_cue_and_env_poe_does_not():
    benchmark = TwoBit(samples=5000).load(0)
    assert benchmark.mechanism
    gaps = []
    for method in (ERM(), EnvPoE()):
        *_, last = train(fresh(), method, benchmark.train, recipe(3), family=Bernoulli())
        gaps.append(exact(last.model, benchmark.mechanism, Bernoulli()).gap)
    assert gaps[0] > 0.5
    assert gaps[1] < 0.02


def test_the_model_is_as_it_was_until_the_environment_classifier_is_trained():
    made = TwoBit(samples=5000).load(0).train
    plain, debiased = (
        list(train(fresh(), IRMv1(), made, recipe(epochs), family=Bernoulli(), snapshots=1000)) for epochs in (0, 2)
    )
    first = 2 * 16  # two epochs of four fifths of 10,000 rows
    assert debiased[-1].steps == first + plain[-1].steps
    assert [snapshot.step for snapshot in debiased] == list(range(1, debiased[-1].steps + 1))
    model = fresh()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    for snapshot in train(model, IRMv1(), made, recipe(2), family=Bernoulli(), snapshots=1000):
        same = all(torch.equal(v, before[k]) for k, v in snapshot.model.state_dict().items())
        assert same == (snapshot.step <= first)
        if snapshot.step > first + 2:
            break


@pytest.mark.parametrize("stop", [1, 31, 32, 33, 60])
def test_a_run_resumes_bit_for_bit_in_either_stage(stop):
    made = TwoBit(samples=5000).load(0).train

    def run(**options):
        return train(fresh(), IRMv1(), made, recipe(2), family=Bernoulli(), snapshots=1000, **options)

    state = next(snapshot.state() for snapshot in run() if snapshot.step == stop)
    ends = [list(run())[-1], list(run(state=state))[-1]]
    one, two = (end.state() for end in ends)
    assert [end.finished for end in ends] == [True, True]
    assert "offset" in one
    assert one.keys() == two.keys()
    assert all(torch.equal(one[k], two[k]) for k in one)


def test_one_environment_has_no_such_stage(environments):
    model = Model(nn.Linear(3, 3), nn.Linear(3, 1))
    assert stage(model, environments(40), recipe(2), Bernoulli(), 0) is None
    assert stage(model, environments(40, 30), recipe(0), Bernoulli(), 0) is None
    assert stage(model, environments(40, 30), recipe(2), Bernoulli(), 0).steps == 2


def unrelated(seed: int = 0) -> list[Environment]:
    """Two environments of one distribution: there is no cue."""
    made = []
    for name in "ab":
        x = torch.randn(2000, 2, generator=torch.Generator().manual_seed(seed + ord(name)))
        made.append(Environment(name, x, (x[:, 0] > 0).float()))
    return made


def debiased(method: Method, made: list[Environment], **options) -> list[Snapshot]:
    return list(train(fresh(), method, made, recipe(2), family=Bernoulli(), snapshots=1000, **options))


def numbers(method: Method, spreads: tuple[float, float], warmup: float = 0.0, **options) -> Iterator[Snapshot]:
    """Training on a number y, by a cause and a cue: y with noise of this spread in each environment."""
    made, random = [], torch.Generator().manual_seed(0)
    for name, spread in zip("ab", spreads, strict=True):
        x = torch.randn(4000, 1, generator=random)
        y = x + torch.randn(4000, 1, generator=random)
        cue = y + spread * torch.randn(4000, 1, generator=random)
        made.append(Environment(name, torch.cat([x, cue], 1), y.squeeze(1)))
    how = replace(recipe(4), epochs=12, lr=0.1, warmup=warmup)
    return train(fresh(), method, made, how, family=Gaussian(), **options)


def last(snapshots: Iterator[Snapshot]) -> Snapshot:
    return list(snapshots)[-1]


def test_beside_the_expert_of_a_number_the_model_is_the_regression_on_the_cause():
    slopes = []
    for method in (ERM(), EnvPoE()):
        model = last(numbers(method, (0.5, 1.0))).model
        slopes.append((model(torch.eye(2)) - model(torch.zeros(1, 2))).squeeze(1).tolist())
    assert slopes[0][1] > 0.5
    assert slopes[1] == pytest.approx([1, 0], abs=0.1)


def test_a_run_on_numbers_resumes_bit_for_bit_in_either_stage():
    states = [snapshot.state() for snapshot in numbers(EnvPoE(), (0.5, 1.0))]
    assert [len(states[i]["offset"]) if "offset" in states[i] else 0 for i in (1, -3)] == [0, 8000]
    for i in (1, -3):
        end = last(numbers(EnvPoE(), (0.5, 1.0), state=states[i])).state()
        assert all(torch.equal(v, states[-1][k]) for k, v in end.items())


def test_without_a_cue_for_a_number_a_penalty_has_the_weight_that_it_has_alone():
    light = last(numbers(IRMv1(gamma=1.0, gamma_alone=10.0), (0.7, 0.7)))
    alone = last(numbers(IRMv1(gamma=10.0), (0.7, 0.7), warmup=0.34)).model.state_dict()
    assert "no cue was found" in light.note
    assert all(torch.equal(v, alone[k]) for k, v in light.model.state_dict().items())


def test_a_run_says_that_there_is_no_offset_and_only_then():
    assert [snapshot.note for snapshot in debiased(EnvPoE(), TwoBit(samples=5000).load(0).train)][-1] == ""
    assert "no cue was found" in debiased(EnvPoE(), unrelated())[-1].note
    assert debiased(ERM(), unrelated())[-1].note == ""
    assert last(numbers(EnvPoE(), (0.5, 1.0))).note == ""
    assert "no cue was found" in last(numbers(EnvPoE(), (0.7, 0.7))).note


def test_without_an_offset_a_penalty_has_the_weight_that_it_has_alone():
    light, heavy = IRMv1(gamma=1.0, gamma_alone=1e4), IRMv1(gamma=1e4)
    assert light.alone().gamma == 1e4
    warm = replace(recipe(2), warmup=0.34)
    *_, alone = train(fresh(), heavy, unrelated(), warm, family=Bernoulli())
    last = debiased(light, unrelated())[-1]
    assert last.note
    assert all(torch.equal(v, alone.model.state_dict()[k]) for k, v in last.model.state_dict().items())


@pytest.mark.parametrize("stop", [1, 14, 15, 30])
def test_a_run_without_an_offset_resumes_bit_for_bit(stop):
    method = IRMv1(gamma=1.0, gamma_alone=1e4)
    snapshots = train(fresh(), method, unrelated(), recipe(2), family=Bernoulli(), snapshots=1000)
    state = next(snapshot.state() for snapshot in snapshots if snapshot.step == stop)
    one, two = debiased(method, unrelated())[-1], debiased(method, unrelated(), state=state)[-1]
    assert one.note == two.note != ""
    assert all(torch.equal(v, two.state()[k]) for k, v in one.state().items())
