import pytest
import torch
from torch import nn

from invariance.core.environment import Benchmark, Mechanism
from invariance.core.families import Bernoulli, Categorical
from invariance.core.seeding import generator
from invariance.data.two_bit import TwoBit
from invariance.evaluation.landscape import axis, directions, landscape, loss
from invariance.models.mlp import MLP


@pytest.fixture
def benchmark() -> Benchmark:
    return TwoBit(samples=300).load(0)


@pytest.fixture
def model():
    return MLP(width=5).build((2,), 1, 0)


def test_the_axis_goes_from_minus_one_to_one_through_the_middle():
    assert axis(5) == (-1, -0.5, 0, 0.5, 1)
    assert axis(1) == (0,)


def test_every_row_of_a_direction_is_as_long_as_the_weights_own():
    weights = [torch.randn(4, 3, generator=generator(0)), torch.randn(2, 3, 5, 5, generator=generator(1))]
    for w, d in zip(weights, directions(weights, generator(2)), strict=True):
        assert d.shape == w.shape
        assert torch.allclose(d.flatten(1).norm(dim=1), w.flatten(1).norm(dim=1))
        assert not torch.allclose(d, w)


def test_biases_scales_and_rows_of_zeros_stay_where_they_are():
    bias, scale, silent = directions([torch.ones(4), torch.tensor(3.0), torch.zeros(2, 3)], generator(0))
    assert (bias == 0).all()
    assert scale == 0
    assert (silent == 0).all()


def test_the_middle_is_the_model_itself(model, benchmark):
    grid = landscape(model, benchmark, 3, seed=0)
    assert [len(row) for row in grid] == [3, 3, 3]
    assert grid[1][1] == pytest.approx(loss(model, benchmark), rel=1e-6)
    assert len({value for row in grid for value in row}) == 9


def test_the_model_is_left_as_it_was(model, benchmark):
    before = [p.clone() for p in model.parameters()]
    landscape(model, benchmark, 3, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert model.training


def test_a_point_is_the_loss_at_the_moved_weights(model, benchmark):
    grid = landscape(model, benchmark, 5, seed=7)
    weights = [p.detach().clone() for p in model.parameters()]
    across, along = (directions(weights, generator(7, "landscape", side)) for side in ("across", "along"))
    with torch.no_grad():
        for p, u, v in zip(model.parameters(), across, along, strict=True):
            p += -0.5 * u + 1.0 * v
    assert grid[1][4] == pytest.approx(loss(model, benchmark), rel=1e-5)


def test_the_plane_depends_on_the_seed_alone(model, benchmark):
    assert landscape(model, benchmark, 3, seed=0) == landscape(model, benchmark, 3, seed=0)
    assert landscape(model, benchmark, 3, seed=0) != landscape(model, benchmark, 3, seed=1)


def test_scale_that_moves_between_layers_does_not_change_the_picture(model, benchmark):
    before = landscape(model, benchmark, 3, seed=0)
    first, _, second, _ = (layer for layer in model.features if not isinstance(layer, nn.Flatten))
    first.weight.data *= 4
    first.bias.data *= 4
    second.weight.data /= 4
    after = landscape(model, benchmark, 3, seed=0)
    assert torch.allclose(torch.tensor(after), torch.tensor(before), rtol=1e-4)


def test_the_loss_is_the_mean_over_environments_of_its_expectation(model, benchmark):
    mechanism = benchmark.mechanism
    each = []
    for beta in mechanism.betas:
        total = 0.0
        for flipped, chance in ((False, 1 - mechanism.alpha), (True, mechanism.alpha)):
            y = mechanism.t ^ flipped
            for contrary, share in ((False, 1 - beta), (True, beta)):
                x = torch.where((y ^ contrary).unsqueeze(1), mechanism.inputs[1], mechanism.inputs[0])
                total += chance * share * Bernoulli().loss(model(x), y.float()).mean().item()
        each.append(total)
    assert loss(model, benchmark) == pytest.approx(sum(each) / len(each), rel=1e-5)


def test_the_loss_is_what_many_draws_give(model):
    t = torch.arange(2).bool().repeat(100_000)
    off, on = (torch.stack([2.0 * t - 1, torch.full_like(t, s, dtype=torch.float)], 1) for s in (-1, 1))
    mechanism = Mechanism((off, on), t, 0.25, (0.1, 0.5))
    drawn = [mechanism.environment(beta, generator(0, beta)) for beta in mechanism.betas]
    risks = [Bernoulli().loss(model(e.x), e.y.float()).mean().item() for e in drawn]
    benchmark = Benchmark(Bernoulli(), tuple(drawn), (), mechanism=mechanism)
    assert loss(model, benchmark) == pytest.approx(sum(risks) / 2, abs=0.01)


def test_data_without_a_mechanism_are_averaged_over_their_test_environments(environments):
    family = Categorical(3)
    one, two = environments(40, 60, family=family)
    model = MLP(width=4).build((3,), 3, 0)
    each = [family.loss(model(e.x), e.y).mean().item() for e in (one, two)]
    assert loss(model, Benchmark(family, (one, two), (), (one, two))) == pytest.approx(sum(each) / 2, rel=1e-6)
