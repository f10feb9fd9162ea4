import pytest
import torch
from torch import nn

from invariance.core.batch import Batch
from invariance.core.environment import Environment
from invariance.core.families import Bernoulli, Categorical, Gaussian
from invariance.data.two_bit import TwoBit
from invariance.evaluation.scores import exact
from invariance.methods.erm import ERM
from invariance.methods.irmv1 import IRMv1
from invariance.models.base import Model
from invariance.models.linear import Linear
from invariance.recipes.recipe import Recipe
from invariance.recipes.schedules import Clock
from invariance.training.debiasing import (
    FOLD,
    EnvironmentClassification,
    answers,
    environment_classifier,
    evidence,
    log_posterior,
    offsets,
    training_part,
)
from invariance.training.loop import Training, train


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
def test_the_answer_is_the_label_that_the_changing_part_stands_for(labels, rates):
    data, cue = drawn(rates, labels)
    assert torch.equal(answers(Model(Knowing(rates, labels), nn.Identity()), data), cue)


@pytest.mark.parametrize("labels", [2, 3])
def test_offsets_are_the_log_odds_of_the_answer_in_each_environment(labels):
    rates = [0.1, 0.25]
    data, cue = drawn(rates, labels, n=20_000)
    found = offsets(Model(Knowing(rates, labels), nn.Identity()), data)
    assert found is not None
    said = data.family.predict(found)
    assert torch.equal(said.long(), cue)
    for e, rate in enumerate(rates):
        own = data.only(e)
        right = torch.softmax(found[data.rows(e)], 1) if labels > 2 else torch.sigmoid(found[data.rows(e)].abs())
        assert right.max(1).values.mean() == pytest.approx(1 - rate, abs=0.01)
        assert float(own.family.score(found[data.rows(e)], own.y).mean()) == pytest.approx(1 - rate, abs=0.01)


def test_an_answer_that_is_as_often_right_everywhere_is_not_explained_away():
    data, _ = drawn([0.2, 0.2], 2)
    assert offsets(Model(Knowing([0.1, 0.3], 2), nn.Identity()), data) is None


def test_evidence_is_what_a_model_says_that_knows_nothing_else():
    right = torch.tensor([0.9, 0.6])
    two = evidence(torch.tensor([1.0, 0.0]), right, Bernoulli())
    assert torch.allclose(torch.sigmoid(two).squeeze(1), torch.tensor([0.9, 0.4]))
    many = evidence(torch.tensor([2, 0]), right, Categorical(4)).softmax(1)
    assert torch.allclose(many[0], torch.tensor([0.1 / 3, 0.1 / 3, 0.9, 0.1 / 3]))
    assert torch.allclose(many[1], torch.tensor([0.6, 0.4 / 3, 0.4 / 3, 0.4 / 3]))


def test_telling_is_the_mean_surprise_at_the_environment_given_input_and_label():
    data, _ = drawn([0.1, 0.3], 2, n=50)
    model = Model(nn.Linear(1, 3), nn.Linear(3, 4))
    (move,) = EnvironmentClassification().moves(model, data, Clock(0, 1, 0), torch.Generator())
    table = log_posterior(model(data.x), 2)
    surprise = [-table[i, int(data.y[i]), int(data.environment[i])] for i in range(100)]
    assert move.loss().item() == pytest.approx(torch.stack(surprise).mean().item(), rel=1e-5)


def test_the_teller_is_a_fresh_model_that_depends_on_the_seed_alone():
    made = TwoBit(samples=20).load(0).train
    model = Linear().build((2,), 1)
    first, second, other = (environment_classifier(model, made, Bernoulli(), seed) for seed in (0, 0, 1))
    assert first.head.out_features == 4
    assert torch.equal(first.head.weight, second.head.weight)
    assert not torch.equal(first.head.weight, other.head.weight)
    assert first.features is not model.features


@pytest.mark.parametrize("rows", [5, 6, 9, 10, 11])
def test_one_row_in_five_is_kept_from_the_teller(rows):
    part = training_part(Environment("e", torch.arange(rows).float().unsqueeze(1), torch.zeros(rows)))
    assert part.x.squeeze(1).tolist() == [i for i in range(rows) if i % FOLD]


def recipe(explain: int) -> Recipe:
    return Recipe(batch_size=500, epochs=6, lr=1e-2, warmup=0.0, explain=explain, schedule={"kind": "decay"})


def test_what_changes_is_learnt_without_explaining_and_not_learnt_with_it():
    benchmark = TwoBit(samples=5000).load(0)
    gaps = []
    for explain in (0, 3):
        model = benchmark_model()
        *_, last = train(model, ERM(), benchmark.train, recipe(explain), family=Bernoulli())
        assert benchmark.mechanism
        gaps.append(exact(last.model, benchmark.mechanism, Bernoulli()).gap)
    assert gaps[0] > 0.5
    assert gaps[1] < 0.02


def benchmark_model() -> Model:
    return Linear().build((2,), 1)


def test_the_updates_of_the_teller_come_before_all_others():
    made = TwoBit(samples=5000).load(0).train
    plain = Training(benchmark_model(), IRMv1(), made, recipe(0), Bernoulli(), 0)
    explained = Training(benchmark_model(), IRMv1(), made, recipe(2), Bernoulli(), 0)
    assert plain.begin == 0
    assert explained.begin == 2 * 16  # two epochs of four fifths of 10,000 rows
    assert explained.steps - explained.begin == plain.steps
    before = {k: v.clone() for k, v in explained.model.state_dict().items()}
    for _ in range(explained.begin):
        explained.advance()
    assert all(torch.equal(v, before[k]) for k, v in explained.model.state_dict().items())
    assert explained.data.offset is not None
    explained.advance()
    assert any(not torch.equal(v, before[k]) for k, v in explained.model.state_dict().items())


@pytest.mark.parametrize("stop", [1, 31, 32, 33, 60])
def test_a_run_resumes_bit_for_bit_before_and_after_explaining(stop):
    made = TwoBit(samples=5000).load(0).train
    whole = Training(benchmark_model(), IRMv1(), made, recipe(2), Bernoulli(), 0)
    while whole.step < stop:
        whole.advance()
    again = Training(benchmark_model(), IRMv1(), made, recipe(2), Bernoulli(), 0)
    again.load(whole.state())
    for training in (whole, again):
        while not training.finished:
            training.advance()
    one, two = whole.state(), again.state()
    assert "offset" in one
    assert one.keys() == two.keys()
    assert all(torch.equal(one[k], two[k]) for k in one)


def test_one_environment_and_numbers_have_nothing_to_explain(environments):
    x = torch.randn(40, 3)
    alone = Training(Model(nn.Linear(3, 3), nn.Linear(3, 1)), ERM(), environments(40), recipe(2), Bernoulli(), 0)
    pair = (Environment("a", x, x[:, 0]), Environment("b", x, x[:, 1]))
    numbers = Training(Model(nn.Linear(3, 3), nn.Linear(3, 1)), IRMv1(), pair, recipe(2), Gaussian(), 0)
    assert alone.begin == numbers.begin == 0
