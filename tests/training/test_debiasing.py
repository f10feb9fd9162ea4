import pytest
import torch
from torch import nn

from invariance.core.batch import Batch
from invariance.core.environment import Environment
from invariance.core.families import Bernoulli, Categorical, Gaussian
from invariance.data.two_bit import TwoBit
from invariance.evaluation.scores import exact
from invariance.methods.env_poe import EnvPoE
from invariance.methods.erm import ERM
from invariance.methods.irmv1 import IRMv1
from invariance.models.base import Model
from invariance.models.linear import Linear
from invariance.recipes.recipe import Recipe
from invariance.recipes.schedules import Clock
from invariance.training.debiasing import (
    FOLD,
    EnvironmentClassification,
    environment_classifier,
    expert_logits,
    log_posterior,
    logit_offset,
    spurious_label,
    stage,
    training_part,
)
from invariance.training.train import train


def drawn(rates: list[float], labels: int, n: int = 4000, seed: int = 0) -> tuple[Batch, torch.Tensor]:
    """Environments whose one input names a label, and is wrong in a share ``rates[e]`` of the samples."""
    random = torch.Generator().manual_seed(seed)
    y = torch.randint(labels, (n * len(rates),), generator=random)
    wrong = torch.cat([torch.rand(n, generator=random) < rate for rate in rates])
    cue = torch.where(wrong, (y + torch.randint(1, labels, y.shape, generator=random)) % labels, y)
    family = Bernoulli() if labels == 2 else Categorical(labels)
    targets = y.float() if labels == 2 else y
    return Batch(cue.unsqueeze(1).float(), targets, (n,) * len(rates), family), cue


class Knowing(nn.Module):
    """P(e | x, y) as it is: an environment is as likely as its rate of what is seen."""

    def __init__(self, rates: list[float], labels: int) -> None:
        super().__init__()
        self.rates, self.labels = torch.tensor(rates), labels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        same = x.long() == torch.arange(self.labels)  # [n, labels]
        return torch.where(same.unsqueeze(2), 1 - self.rates, self.rates).log().flatten(1)


@pytest.mark.parametrize("labels", [2, 3, 7])
@pytest.mark.parametrize("rates", [[0.1, 0.2], [0.3, 0.05], [0.1, 0.2, 0.4], [0.6, 0.2]])
def test_the_spurious_label_is_the_one_that_the_environment_specific_cue_suggests(labels, rates):
    data, cue = drawn(rates, labels)
    assert torch.equal(spurious_label(Model(Knowing(rates, labels), nn.Identity()), data), cue)


@pytest.mark.parametrize("labels", [2, 3])
def test_the_offset_is_the_log_odds_of_the_spurious_label_in_each_environment(labels):
    rates = [0.1, 0.25]
    data, cue = drawn(rates, labels, n=20_000)
    found = logit_offset(Model(Knowing(rates, labels), nn.Identity()), data)
    assert found is not None
    said = data.family.predict(found)
    assert torch.equal(said.long(), cue)
    for e, rate in enumerate(rates):
        own = data.only(e)
        right = torch.softmax(found[data.rows(e)], 1) if labels > 2 else torch.sigmoid(found[data.rows(e)].abs())
        assert right.max(1).values.mean() == pytest.approx(1 - rate, abs=0.01)
        assert float(own.family.score(found[data.rows(e)], own.y).mean()) == pytest.approx(1 - rate, abs=0.01)


def test_a_spurious_label_of_equal_accuracy_everywhere_gives_no_offset():
    data, _ = drawn([0.2, 0.2], 2)
    assert logit_offset(Model(Knowing([0.1, 0.3], 2), nn.Identity()), data) is None


def test_the_biased_expert_knows_the_spurious_label_and_its_accuracy_alone():
    right = torch.tensor([0.9, 0.6])
    two = expert_logits(torch.tensor([1.0, 0.0]), right, Bernoulli())
    assert torch.allclose(torch.sigmoid(two).squeeze(1), torch.tensor([0.9, 0.4]))
    many = expert_logits(torch.tensor([2, 0]), right, Categorical(4)).softmax(1)
    assert torch.allclose(many[0], torch.tensor([0.1 / 3, 0.1 / 3, 0.9, 0.1 / 3]))
    assert torch.allclose(many[1], torch.tensor([0.6, 0.4 / 3, 0.4 / 3, 0.4 / 3]))


def test_the_environment_classifier_minimises_cross_entropy_given_input_and_label():
    data, _ = drawn([0.1, 0.3], 2, n=50)
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


def test_one_environment_and_regression_have_no_such_stage(environments):
    x = torch.randn(40, 3)
    pair = (Environment("a", x, x[:, 0]), Environment("b", x, x[:, 1]))
    model = Model(nn.Linear(3, 3), nn.Linear(3, 1))
    assert stage(model, environments(40), recipe(2), Bernoulli(), 0) is None
    assert stage(model, pair, recipe(2), Gaussian(), 0) is None
    assert stage(model, environments(40, 30), recipe(0), Bernoulli(), 0) is None
    assert stage(model, environments(40, 30), recipe(2), Bernoulli(), 0).steps == 2
