from itertools import product
from math import log

import pytest
import torch
from torch import Tensor, nn

from invariance.core.batch import Batch
from invariance.core.environment import Benchmark
from invariance.core.families import Bernoulli
from invariance.data.two_bit import TwoBit
from invariance.evaluation.scores import exact
from invariance.methods.irmv1 import scale_gradient
from invariance.models.base import Model


class Table(nn.Module):
    """An output for each of the four inputs: (−,−), (−,+), (+,−), (+,+)."""

    def __init__(self, entries: tuple[float, ...]) -> None:
        super().__init__()
        self.entries = torch.tensor(entries)

    def forward(self, x: Tensor) -> Tensor:
        return self.entries[(2 * (x[:, 0] > 0) + (x[:, 1] > 0)).long()].unsqueeze(1)


def table(*entries: float) -> Model:
    return Model(nn.Identity(), Table(entries))


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return TwoBit().load(seed=0)


@pytest.mark.parametrize("part", ["train", "validation"])
def test_bits_contradict_the_label_as_often_as_asked(benchmark, part, assert_share):
    for environment, beta in zip(getattr(benchmark, part), (0.1, 0.2), strict=True):
        assert environment.name == f"β={beta}"
        assert environment.x.shape == (25_000, 2)
        assert environment.x.unique().tolist() == [-1, 1]
        agrees = environment.x == (2 * environment.y - 1).unsqueeze(1)
        assert_share(~agrees[:, 0], 0.25)
        assert_share(~agrees[:, 1], beta)
        assert_share(~agrees[agrees[:, 0], 1], beta)  # the two bits err independently
        assert_share(environment.y, 0.5)


def test_training_validation_and_test_are_drawn_apart(benchmark, assert_share):
    bits = [e.x[:, 0] for e in (*benchmark.train, *benchmark.validation)]
    bits.append(benchmark.mechanism.inputs[0][:, 0])
    for i, a in enumerate(bits):
        for b in bits[:i]:
            assert_share(a == b, 0.5)


def test_the_two_looks_differ_in_the_second_bit_alone(benchmark):
    off, on = benchmark.mechanism.inputs
    assert torch.equal(off[:, 0], on[:, 0])
    assert (off[:, 1] == -1).all()
    assert (on[:, 1] == 1).all()
    assert torch.equal(off[:, 0] > 0, benchmark.mechanism.t)


def test_an_oracle_gets_the_first_bit_alone():
    blind, seeing = (TwoBit(samples=100).load(seed=4, oracle=oracle) for oracle in (True, False))
    assert blind.input_shape == (1,)
    assert torch.equal(*blind.mechanism.inputs)
    for a, b in zip(blind.train, seeing.train, strict=True):
        assert torch.equal(a.x, b.x[:, :1])
        assert torch.equal(a.y, b.y)


def test_seeds_decide_the_data():
    first, again, other = (TwoBit(samples=100).load(seed) for seed in (0, 0, 1))
    assert torch.equal(first.train[1].x, again.train[1].x)
    assert not torch.equal(first.train[1].x, other.train[1].x)


def test_environments_are_those_asked_for():
    benchmark = TwoBit(betas=(0.0, 0.3, 1.0), samples=50, test_betas=(0.5,)).load(seed=0)
    assert [e.name for e in benchmark.train] == ["β=0", "β=0.3", "β=1"]
    assert {len(e) for e in (*benchmark.train, *benchmark.validation)} == {50}
    assert benchmark.mechanism.betas == (0.5,)
    agree, _, oppose = benchmark.train
    assert torch.equal(agree.x[:, 1] > 0, agree.y.bool())
    assert torch.equal(oppose.x[:, 1] < 0, oppose.y.bool())


@pytest.mark.parametrize("alpha", [0.25, 0.1])
def test_the_first_bit_alone_scores_one_less_alpha_everywhere(alpha):
    mechanism = TwoBit(alpha=alpha, samples=200).load(seed=0).mechanism
    scores = exact(table(-1, -1, 1, 1), mechanism, Bernoulli())
    assert list(scores.by_environment.values()) == pytest.approx([1 - alpha] * 19, abs=1e-12)


def test_no_other_predictor_has_a_better_worst_environment(benchmark):
    worst = {
        signs: exact(table(*signs), benchmark.mechanism, benchmark.family).worst for signs in product((-1, 1), repeat=4)
    }
    best = max(worst, key=worst.__getitem__)
    assert best == (-1, -1, 1, 1)
    assert worst[best] == pytest.approx(0.75, abs=1e-12)
    assert sorted(worst.values())[-2] < 0.7


def test_the_invariant_optimum_is_stationary_in_every_environment(benchmark):
    batch = Batch.of(benchmark.train, benchmark.family)
    logit = log(0.75 / 0.25)
    f = table(-logit, -logit, logit, logit)(batch.x)
    each = (batch.residual(f) * f).squeeze(1)
    error = each.std().item() / 25_000**0.5
    assert scale_gradient(batch, batch.x, f).abs().max().item() < 4 * error
    assert scale_gradient(batch, batch.x, 2 * f).abs().min().item() > 20 * error  # and only at this scale


def test_the_spurious_bit_is_stationary_in_no_two_environments(benchmark):
    batch = Batch.of(benchmark.train, benchmark.family)
    logit = log(0.85 / 0.15)
    f = table(-logit, logit, -logit, logit)(batch.x)
    low, high = scale_gradient(batch, batch.x, f).flatten().tolist()
    assert low < -0.05
    assert high > 0.05
