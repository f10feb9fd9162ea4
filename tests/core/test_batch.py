import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from invariance.core.batch import Batch
from invariance.core.environment import Benchmark, Environment, Mechanism
from invariance.core.errors import BadValue, InvarianceError
from invariance.core.families import Bernoulli, Gaussian
from invariance.core.seeding import generator

counts = st.one_of(
    st.lists(st.integers(1, 6), min_size=1, max_size=5),
    st.builds(lambda n, e: [n] * e, st.integers(1, 6), st.integers(1, 5)),
)


def batch_of(counts: list[int]) -> Batch:
    n = sum(counts)
    return Batch(torch.arange(n * 2.0).view(n, 2), torch.arange(n) % 2.0, tuple(counts), Bernoulli())


def split(v: torch.Tensor, counts: list[int]) -> list[torch.Tensor]:
    parts, start = [], 0
    for n in counts:
        parts.append(v[start : start + n])
        start += n
    return parts


# Batch


@given(counts, st.sampled_from([(), (3,), (2, 3)]), st.integers(0, 2**31))
def test_mean_is_the_loop_over_environments(counts, shape, seed):
    v = torch.randn(sum(counts), *shape, generator=generator(seed), dtype=torch.float64)
    expected = torch.stack([part.mean(0) for part in split(v, counts)])
    torch.testing.assert_close(batch_of(counts).mean(v), expected, rtol=0, atol=1e-13)


@given(counts, st.integers(1, 3), st.integers(1, 4), st.sampled_from([1, 2]), st.booleans(), st.integers(0, 2**31))
def test_outer_mean_is_the_loop_over_samples(counts, p, q, power, weighted, seed):
    random = generator(seed)
    a = torch.randn(sum(counts), p, generator=random, dtype=torch.float64)
    b = torch.randn(sum(counts), q, generator=random, dtype=torch.float64)
    weight = torch.rand(sum(counts), generator=random, dtype=torch.float64) + 0.1
    batch = replace(batch_of(counts), weight=weight if weighted else None)
    parts = zip(*(split(v, counts) for v in (a, b, weight if weighted else torch.ones_like(weight))), strict=True)
    expected = [
        sum(share * torch.outer(u, v**power) for u, v, share in zip(*part, strict=True)) / part[2].sum()
        for part in parts
    ]
    torch.testing.assert_close(batch.outer_mean(a, b, power), torch.stack(expected), rtol=0, atol=1e-12)


@pytest.mark.parametrize("counts", [[3, 3], [2, 5, 1]])
def test_averages_can_be_differentiated_twice(counts):
    batch = batch_of(counts)
    a = torch.randn(sum(counts), 2, dtype=torch.float64, generator=generator(0)).requires_grad_()
    b = torch.randn(sum(counts), 3, dtype=torch.float64, generator=generator(1)).requires_grad_()
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(batch.mean, a)
        for power in (1, 2):
            assert check(lambda a, b, power=power: batch.outer_mean(a, b, power), (a, b))


@given(counts)
def test_environment_names_the_owner_of_each_row(counts):
    expected = [e for e, n in enumerate(counts) for _ in range(n)]
    assert batch_of(counts).environment.tolist() == expected


@given(counts)
def test_only_holds_the_rows_of_one_environment(counts):
    batch = batch_of(counts)
    for e, rows in enumerate(split(batch.x, counts)):
        own = batch.only(e)
        assert own.counts == (counts[e],)
        assert torch.equal(own.x, rows)
        assert torch.equal(own.y, batch.y[batch.rows(e)])


def test_take_keeps_inputs_and_targets_together():
    batch = batch_of([3, 4])
    small = batch.take(torch.tensor([2, 0, 5]), (2, 1))
    assert small.counts == (2, 1)
    assert torch.equal(small.x, batch.x[[2, 0, 5]])
    assert torch.equal(small.y, batch.y[[2, 0, 5]])


@given(st.lists(st.integers(2, 7), min_size=1, max_size=4))
def test_a_halved_batch_has_both_halves_of_every_environment_side_by_side(counts):
    batch = batch_of(counts)
    means = batch.halved().mean(batch.x)
    for e, part in enumerate(split(batch.x, counts)):
        half = (len(part) + 1) // 2
        assert torch.allclose(means[2 * e], part[:half].mean(0))
        assert torch.allclose(means[2 * e + 1], part[half:].mean(0))


def test_an_environment_of_one_row_has_no_halves():
    with pytest.raises(BadValue, match="at least two samples"):
        batch_of([3, 1]).halved()


def test_a_batch_of_environments_checks_targets_and_names(environments):
    a, b = environments(3, 5)
    batch = Batch.of((a, b), Bernoulli())
    assert batch.counts == (3, 5)
    assert torch.equal(batch.x, torch.cat([a.x, b.x]))
    assert batch.y.dtype == torch.get_default_dtype()
    with pytest.raises(BadValue, match="different names; got a, a"):
        Batch.of((a, a), Bernoulli())
    with pytest.raises(BadValue, match=r"'b'.*label [78]"):
        Batch.of((a, Environment("b", b.x, b.y + 7)), Bernoulli())


def test_risks_are_mean_losses_of_each_environment(environments):
    batch = Batch.of(environments(2, 4, family=Gaussian()), Gaussian())
    f = batch.x[:, :1]
    expected = [0.5 * (part.x[:, 0] - part.y).square().mean() for part in (batch.only(0), batch.only(1))]
    torch.testing.assert_close(batch.risks(f), torch.stack(expected))


# Environment


@pytest.mark.parametrize("values", [(1, math.nan), (1, math.inf), (-math.inf, math.inf)])
def test_an_environment_refuses_inputs_that_are_not_numbers(values):
    with pytest.raises(BadValue, match=r"'ward 3'.*NaN or infinite") as caught:
        Environment("ward 3", torch.tensor(values).unsqueeze(1), torch.zeros(2))
    assert "\n" not in str(caught.value)


def test_an_environment_takes_numbers_whose_sum_is_infinite():
    assert len(Environment("ward 3", torch.full((3, 2), 3e38), torch.zeros(3))) == 3


def test_an_environment_refuses_to_be_empty():
    with pytest.raises(BadValue, match="'ward 3' is empty"):
        Environment("ward 3", torch.zeros(0, 2), torch.zeros(0))


def test_an_environment_refuses_unequal_lengths():
    with pytest.raises(BadValue, match="'ward 3': 3 inputs but 2 targets"):
        Environment("ward 3", torch.zeros(3, 2), torch.zeros(2))


# Mechanism


def mechanism(n: int, alpha: float) -> Mechanism:
    """Inputs show the spurious bit and nothing else."""
    t = torch.rand(n, generator=generator(0)) < 0.5
    return Mechanism((torch.zeros(n, 1), torch.ones(n, 1)), t, alpha)


@pytest.mark.parametrize(("alpha", "beta"), [(0.25, 0.1), (0.1, 0.9), (0.0, 0.3), (0.4, 0.0)])
def test_label_noise_is_alpha_and_spurious_disagreement_is_beta(alpha, beta):
    n = 20_000
    made = mechanism(n, alpha)
    environment = made.environment(beta, generator(1))
    noisy = environment.y != made.t
    disagrees = environment.x[:, 0] != environment.y
    for event, p in [(noisy, alpha), (disagrees, beta), (noisy & disagrees, alpha * beta)]:
        assert abs(float(event.float().mean()) - p) <= 4 * (p * (1 - p) / n) ** 0.5


def test_a_mechanism_over_fewer_samples_keeps_them_whole():
    t = torch.tensor([True, False, True, True])
    off = torch.arange(4.0).view(4, 1, 1).expand(4, 2, 2)
    made = Mechanism((off, off + 10), t, alpha=0.0).take(torch.tensor([3, 1]))
    assert len(made) == 2
    environment = made.environment(0.0, generator(0))  # nothing random is left: s = y = t
    assert environment.y.tolist() == [1, 0]
    assert environment.x[:, 0, 0].tolist() == [13, 1]


# generator


def test_the_same_seed_and_purpose_give_the_same_numbers():
    first, second = (torch.rand(5, generator=generator(3, "noise", 7)) for _ in range(2))
    assert torch.equal(first, second)


def test_purposes_and_seeds_have_streams_of_their_own():
    n = 4000
    purposes = [(0, "noise", 1), (0, "noise", 2), (0, "noise", "1"), (0, "order", 1), (1, "noise", 1), (0,)]
    streams = torch.stack([torch.randn(n, generator=generator(*p)) for p in purposes])
    correlation = torch.corrcoef(streams) - torch.eye(len(purposes))
    assert correlation.abs().max() < 4 / n**0.5


def test_a_generator_does_not_touch_the_global_one():
    before = torch.random.get_rng_state()
    torch.rand(3, generator=generator(0, "anything"))
    assert torch.equal(torch.random.get_rng_state(), before)


# Benchmark


def test_a_benchmark_needs_an_environment():
    with pytest.raises(BadValue, match="at least one"):
        Benchmark(Bernoulli(), ())


def test_holding_out_selects_on_the_environment_left_out(environments):
    benchmark = Benchmark(Bernoulli(), environments(3, 4, 5))
    left = benchmark.holding_out("b")
    assert [e.name for e in left.train] == ["a", "c"]
    assert left.validation == (benchmark.train[1],)


def test_holding_out_prefers_the_validation_samples_of_that_environment(environments):
    benchmark = Benchmark(Bernoulli(), environments(3, 4, 5), environments(2, 2, 2, seed=1))
    assert benchmark.holding_out("c").validation == (benchmark.validation[2],)


def test_holding_out_needs_three_environments(environments):
    with pytest.raises(BadValue, match="leaves 1 training environment"):
        Benchmark(Bernoulli(), environments(3, 4)).holding_out("a")


def test_holding_out_an_environment_that_does_not_exist_is_an_error(environments):
    with pytest.raises(InvarianceError, match="'z'"):
        Benchmark(Bernoulli(), environments(3, 4, 5)).holding_out("z")


def test_targets_must_be_one_number_a_sample():
    with pytest.raises(BadValue, match=r"shape \(3, 1\)"):
        Environment("Lyon", torch.zeros(3, 2), torch.zeros(3, 1))


@pytest.mark.parametrize("x", [torch.zeros(3, 2).long(), torch.zeros(3, 2).double(), torch.zeros(3, 4)])
def test_inputs_must_be_floating_point_of_one_type_and_shape(x):
    first = Environment("Lyon", torch.zeros(3, 2), torch.zeros(3))
    with pytest.raises(BadValue, match="'Oslo'"):
        Batch.of([first, Environment("Oslo", x, torch.zeros(3))], Gaussian())


def test_targets_keep_the_precision_of_the_inputs():
    y = torch.tensor([1 / 3], dtype=torch.float64)
    batch = Batch.of([Environment("Lyon", torch.zeros(1, 2).double(), y)], Gaussian())
    assert torch.equal(batch.y, y)


def test_an_environment_held_out_without_validation_samples_is_selected_on_its_training_samples(environments):
    a, b, c = environments(3, 4, 5)
    assert Benchmark(Bernoulli(), (a, b, c)).holding_out(b.name).validation == (b,)
    assert Benchmark(Bernoulli(), (a, b, c), validation=(a,)).holding_out(b.name).validation == (b,)
