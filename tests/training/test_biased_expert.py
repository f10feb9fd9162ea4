import math

import pytest
import torch
from torch import Tensor, nn

from invariance.core.batch import Batch
from invariance.core.families import Bernoulli, Categorical
from invariance.models.base import Model
from invariance.training.biased_expert import logit_offset, posterior
from invariance.training.cue_states import cue_states, log_likelihood
from invariance.training.interaction import Posterior, centred, evidence


def drawn(rates: Tensor, cues: int = 1, n: int = 4000, prior: Tensor | None = None) -> Batch:
    """Environments whose inputs name a label each, and are wrong at a rate by environment and class, [E, K]."""
    random = torch.Generator().manual_seed(0)
    environments, labels = rates.shape
    chances = torch.ones(environments, labels) if prior is None else prior
    y = torch.cat([torch.multinomial(row, n, replacement=True, generator=random) for row in chances])
    rate = rates[torch.arange(environments).repeat_interleave(n), y]
    columns = []
    for _ in range(cues):
        other = (y + torch.randint(1, labels, y.shape, generator=random)) % labels
        columns.append(torch.where(torch.rand(len(y), generator=random) < rate, other, y))
    family = Bernoulli() if labels == 2 else Categorical(labels)
    x = torch.stack(columns, 1).float()
    return Batch(x, y.float() if labels == 2 else y, (n,) * environments, family)


class Knowing(nn.Module):
    """log P(x | y, e) + log P(e | y), for cues with these rates and labels with these frequencies, [E, K]."""

    def __init__(self, rates: Tensor, prior: Tensor | None = None) -> None:
        super().__init__()
        self.rates, self.prior = rates, torch.ones_like(rates) if prior is None else prior

    def forward(self, x: Tensor) -> Tensor:
        labels = self.rates.shape[1]
        same = (x.long().unsqueeze(2) == torch.arange(labels)).unsqueeze(3)  # [n, cues, labels, 1]
        each = torch.where(same, 1 - self.rates.T, self.rates.T / (labels - 1)).log().sum(1)
        return (each + self.prior.T.log()).flatten(1)


class KnowingNumber(nn.Module):
    """log P(e | x, y) of a cue that is −1 or 1 with Gaussian noise, of another spread in each environment."""

    def __init__(self, spreads: Tensor) -> None:
        super().__init__()
        self.spreads = spreads

    def forward(self, x: Tensor) -> Tensor:
        means = torch.tensor([-1.0, 1.0]).view(1, 2, 1)
        return torch.distributions.Normal(means, self.spreads).log_prob(x.view(-1, 1, 1)).flatten(1)


def knowing(rates: Tensor, prior: Tensor | None = None) -> Model:
    return Model(Knowing(rates, prior), nn.Identity())


def same_rates(rates: list[float], labels: int) -> Tensor:
    """One rate for all classes."""
    return torch.tensor(rates).unsqueeze(1).expand(-1, labels)


@pytest.mark.parametrize("labels", [2, 3, 7])
@pytest.mark.parametrize("rates", [[0.1, 0.2], [0.3, 0.05], [0.1, 0.2, 0.4], [0.6, 0.2]])
def test_a_state_is_what_the_cue_suggests(labels, rates):
    rates = same_rates(rates, labels)
    data = drawn(rates)
    states = cue_states(posterior(knowing(rates), data), data)
    pairs = torch.stack([states, data.x.squeeze(1).long()], 1).unique(dim=0)
    assert len(pairs) == labels == len(states.unique())


def test_two_cues_have_more_states_than_one():
    rates = same_rates([0.1, 0.3], 2)
    data = drawn(rates, cues=2)
    states = cue_states(posterior(knowing(rates), data), data)
    assert len(states.unique()) == 3  # both suggest 0, both suggest 1, or they disagree


def test_noise_of_the_classifier_makes_no_states():
    rates = same_rates([0.1, 0.3], 2)
    data = drawn(rates)
    found = posterior(knowing(rates), data)
    noise = centred(torch.randn(found.interaction.shape, generator=torch.Generator().manual_seed(0)).double())
    states = cue_states(found._replace(interaction=found.interaction + 0.1 * noise), data)
    assert len(states.unique()) == 2


def test_a_cue_that_is_a_number_has_enough_states_for_its_offset():
    random = torch.Generator().manual_seed(0)
    spreads = torch.tensor([0.6, 1.0])
    y = (torch.rand(8000, generator=random) < 0.5).float()
    environment = torch.arange(2).repeat_interleave(4000)
    x = 2 * y - 1 + spreads[environment] * torch.randn(8000, generator=random)
    data = Batch(x.unsqueeze(1), y, (4000, 4000), Bernoulli())
    offset = logit_offset(Model(KnowingNumber(spreads), nn.Identity()), data)
    assert offset is not None
    own, exact = offset[data.rows(0)].squeeze(1), 2 * x[data.rows(0)] / spreads[0] ** 2
    assert torch.corrcoef(torch.stack([own, exact]))[0, 1] > 0.97  # with four states 0.95


@pytest.mark.parametrize("prior", [None, torch.tensor([[0.7, 0.3], [0.3, 0.7]])])
def test_the_offset_is_the_log_likelihood_ratio_of_the_cue_in_each_class_and_environment(prior):
    rates = torch.tensor([[0.05, 0.3], [0.2, 0.15]])
    data = drawn(rates, n=20_000, prior=prior)
    offset = logit_offset(knowing(rates, prior), data)
    assert offset is not None
    for e in range(2):
        own, cue = offset[data.rows(e)].squeeze(1), data.x[data.rows(e)].squeeze(1)
        shift = 0.0 if prior is None else float((prior[e, 1] / prior[e, 0]).log())
        wanted = [math.log(rates[e, 1] / (1 - rates[e, 0])), math.log((1 - rates[e, 1]) / rates[e, 0])]
        for value in (0, 1):
            assert own[cue == value].mean() == pytest.approx(wanted[value] + shift, abs=0.15)


def test_the_offset_suggests_the_label_of_the_cue_among_many_classes():
    rates = same_rates([0.1, 0.4], 5)
    data = drawn(rates)
    offset = logit_offset(knowing(rates), data)
    assert offset is not None
    assert offset.shape == (8000, 5)
    assert torch.equal(offset.argmax(1), data.x.squeeze(1).long())


def test_a_cue_of_equal_accuracy_everywhere_gives_no_offset():
    assert logit_offset(knowing(same_rates([0.1, 0.3], 2)), drawn(same_rates([0.2, 0.2], 2))) is None


def test_label_shift_is_no_evidence():
    prior = torch.tensor([[0.7, 0.3], [0.3, 0.7]])
    data = drawn(same_rates([0.2, 0.2], 2), prior=prior)
    assert logit_offset(knowing(same_rates([0.2, 0.2], 2), prior), data) is None
    assert logit_offset(knowing(same_rates([0.1, 0.3], 2), prior), data) is None


def test_inputs_that_tell_environments_apart_for_other_reasons_are_no_evidence():
    random = torch.Generator().manual_seed(0)
    common = torch.randn(4000, 2, generator=random)
    environment = (common[:, 1] - common[:, 0] > torch.randn(4000, generator=random)).long()
    order = environment.argsort()
    counts = tuple(torch.bincount(environment).tolist())
    y = (torch.rand(4000, generator=random) < 0.5).float()
    data = Batch(common[order], y, counts, Bernoulli())
    noise = centred(torch.randn(4000, 2, 2, generator=random)).double()
    assert evidence(Posterior(common[order].double(), noise), data).p_value > 0.01


def test_a_weight_of_two_counts_as_two_rows_in_the_likelihood():
    cells = torch.tensor([[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0]])
    twice = torch.tensor([1, 2, 1, 1, 1, 2])

    def likelihood(copies: Tensor, weight: Tensor | None) -> Tensor:
        rows = torch.arange(6).repeat_interleave(copies)
        n = int(copies[:3].sum())
        states, y = cells[rows].T
        data = Batch(torch.zeros(len(rows), 1), y.float(), (n, len(rows) - n), Bernoulli(), weight=weight)
        return log_likelihood(states, data).exp()

    many = torch.full((6,), 10_000)
    weighted = likelihood(many, twice.float().repeat_interleave(10_000))
    assert torch.allclose(weighted, likelihood(twice * 10_000, None), atol=1e-3)
    assert torch.allclose(likelihood(many, torch.full((60_000,), 3.0)), likelihood(many, None))


def marked(rates: list[float]) -> Batch:
    """A cue with these rates of error, a column without use, and one that tells the environment."""
    data = drawn(same_rates(rates, 2))
    random = torch.Generator().manual_seed(1)
    mark = 2.0 * data.environment + 0.3 * torch.randn(len(data.y), generator=random)
    x = torch.stack([data.x.squeeze(1), torch.randn(len(data.y), generator=random), mark], 1)
    return Batch(x, data.y, data.counts, data.family)


class Naming(nn.Module):
    """An environment classifier that has learned the mark alone."""

    def forward(self, x: Tensor) -> Tensor:
        mark = 20 * (x[:, 2] - 1)
        return torch.stack([-mark, mark, -mark, mark], 1)


def test_a_cue_is_found_where_inputs_tell_the_environment():
    data = marked([0.1, 0.3])
    offset = logit_offset(Model(Naming(), nn.Identity()), data)
    assert offset is not None
    for e, rate in enumerate((0.1, 0.3)):
        own, cue = offset[data.rows(e)].squeeze(1), data.x[data.rows(e), 0]
        for value, sign in ((0, -1), (1, 1)):
            assert own[cue == value].mean() == pytest.approx(sign * math.log((1 - rate) / rate), abs=0.25)


def test_no_cue_is_found_where_inputs_tell_the_environment_and_nothing_else_differs():
    assert logit_offset(Model(Naming(), nn.Identity()), marked([0.2, 0.2])) is None
