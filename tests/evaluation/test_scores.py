import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from invariance.core.environment import Benchmark, Environment, Mechanism
from invariance.core.errors import BadValue
from invariance.core.families import Bernoulli, Categorical, Family, Gaussian
from invariance.core.seeding import generator
from invariance.data.colored_digits import ColoredDigits
from invariance.data.two_bit import TwoBit
from invariance.evaluation.scores import Scores, evaluate, exact, outputs, sampled, score, validate
from invariance.models.base import Model
from invariance.models.mlp import MLP


class Function(nn.Module):
    """A head that is any function."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, z: Tensor) -> Tensor:
        return self.function(z)


def predictor(function) -> Model:
    return Model(nn.Identity(), Function(function))


def colour_only(x: Tensor) -> Tensor:
    return (x[:, 1].flatten(1).sum(1) - x[:, 0].flatten(1).sum(1)).unsqueeze(1)


# Exact scores


@pytest.mark.parametrize("alpha", [0.25, 0.1, 0.0])
def test_a_predictor_of_colour_alone_scores_50_with_a_gap_of_90(alpha):
    mechanism = ColoredDigits(alpha=alpha).load(seed=0).mechanism
    scores = exact(predictor(colour_only), mechanism, Bernoulli())
    assert scores.mean == pytest.approx(0.5, abs=1e-12)
    assert scores.gap == pytest.approx(0.9, abs=1e-12)
    assert scores.worst == pytest.approx(0.05, abs=1e-12)
    assert (scores.agree, scores.oppose) == (1, 0)


@pytest.mark.parametrize("seed", range(4))
def test_a_predictor_that_cannot_see_the_spurious_part_has_no_gap_at_all(seed):
    benchmark = ColoredDigits(draws=10).load(seed, oracle=True)
    model = MLP(width=8).build(benchmark.input_shape, 1, seed)
    scores = evaluate(model, benchmark)
    assert 0.25 < scores.mean < 0.75
    assert scores.gap == 0
    assert scores.agree == scores.oppose


@pytest.mark.parametrize("alpha", [0.25, 0.1, 0.3])
def test_exact_scores_are_those_of_the_definition(alpha):
    """Σ over images, labels and colours of the chance of each, written out."""
    mechanism = ColoredDigits(alpha=alpha, test_betas=(0.0, 0.15, 0.5, 0.95)).load(seed=1).mechanism
    model = MLP(width=8).build((2, 8, 8), 1, seed=2)
    named = [(model(x).squeeze(1) > 0).tolist() for x in mechanism.inputs]
    for beta, got in zip(mechanism.betas, exact(model, mechanism, Bernoulli()).by_environment.values(), strict=True):
        total = 0.0
        for i, t in enumerate(mechanism.t.tolist()):
            for y in (False, True):
                for s in (False, True):
                    chance = (alpha if y != t else 1 - alpha) * (beta if s != y else 1 - beta)
                    total += chance * (named[s][i] == y)
        assert got == pytest.approx(total / len(mechanism), abs=1e-12)


def test_exact_scores_are_the_expectation_of_sampled_ones():
    mechanism = TwoBit(samples=40, test_betas=(0.1, 0.6)).load(seed=0).mechanism
    model = MLP(width=4).build((2,), 1, seed=1)
    expected = exact(model, mechanism, Bernoulli())
    assert expected.gap > 0.05  # it leans on the second bit, so β matters
    random = generator(7)
    drawn = [sampled(model, mechanism, Bernoulli(), random) for _ in range(2000)]
    for name, value in expected.by_environment.items():
        values = np.array([scores.by_environment[name] for scores in drawn])
        error = values.std() / math.sqrt(len(values))
        assert 0 < error < 0.003
        assert abs(values.mean() - value) < 4 * error
    means = np.array([scores.mean for scores in drawn])
    assert abs(means.mean() - expected.mean) < 4 * means.std() / math.sqrt(len(means))


@pytest.mark.parametrize("seed", range(3))
def test_accuracy_is_affine_in_beta_and_its_ends_are_the_two_passes(seed):
    betas = (0.0, 0.05, 0.3, 0.5, 0.8, 1.0)
    mechanism = ColoredDigits(test_betas=betas).load(seed).mechanism
    scores = exact(MLP(width=8).build((2, 8, 8), 1, seed), mechanism, Bernoulli())
    values = list(scores.by_environment.values())
    assert list(scores.by_environment) == ["β=0", "β=0.05", "β=0.3", "β=0.5", "β=0.8", "β=1"]
    assert values == pytest.approx(np.interp(betas, (0, 1), (scores.agree, scores.oppose)), abs=1e-12)
    assert abs(scores.agree - scores.oppose) > 0.01


# Which evaluation


def test_a_benchmark_with_a_mechanism_is_evaluated_exactly_unless_asked_to_sample():
    benchmark = TwoBit(samples=50).load(seed=0)
    model = MLP(width=4).build((2,), 1)
    assert evaluate(model, benchmark) == exact(model, benchmark.mechanism, Bernoulli())
    first, again, other = (evaluate(model, benchmark, seed=seed, sampling=True) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert first.agree is None


def test_a_benchmark_without_a_mechanism_is_scored_on_its_test_environments_with_intervals(environments):
    train, test = environments(5, 6)
    scores = evaluate(MLP(width=4).build((3,), 1), Benchmark(Bernoulli(), (train,), test=(test,)))
    assert list(scores.by_environment) == ["b"]
    assert set(scores.intervals) == {"b", "mean", "worst", "gap"}


def test_nothing_to_score_on_is_refused_in_one_line(environments):
    benchmark = Benchmark(Bernoulli(), environments(5))
    with pytest.raises(BadValue, match=r"^there is no environment to score on$"):
        evaluate(MLP(width=4).build((3,), 1), benchmark)


def test_labels_outside_the_classes_are_refused_when_scoring():
    environment = Environment("hospital", torch.zeros(3, 2), torch.tensor([0, 1, 2]))
    with pytest.raises(BadValue, match=r"environment 'hospital': label 2 is outside the classes 0 to 1"):
        score(MLP(width=4).build((2,), 1), [environment], Bernoulli())


# Plain scores


def test_scores_of_classes_are_accuracies_and_of_numbers_minus_squared_errors():
    x = torch.tensor([[-1.0], [2.0], [3.0], [-4.0]])
    identity = predictor(lambda z: z)
    by_class = score(identity, [Environment("e", x, torch.tensor([0, 1, 0, 1]))], Bernoulli())
    assert by_class.by_environment == {"e": 0.5}
    by_number = score(identity, [Environment("e", x, torch.tensor([0.0, 2.0, 1.0, -4.0]))], Gaussian())
    assert by_number.by_environment == {"e": -(1 + 0 + 4 + 0) / 4}
    three = predictor(lambda z: nn.functional.one_hot(z[:, 0].abs().long() - 1, 4).float())
    assert score(three, [Environment("e", x, torch.tensor([0, 1, 3, 3]))], Categorical(4)).by_environment == {"e": 0.75}


def test_mean_worst_and_gap_summarise_environments():
    scores = Scores({"a": 0.5, "b": 0.9, "c": 0.7})
    assert scores.mean == pytest.approx(0.7)
    assert scores.worst == 0.5
    assert scores.gap == pytest.approx(0.4)
    errors = Scores({"a": -4.0, "b": -1.0})
    assert (errors.mean, errors.worst, errors.gap) == (-2.5, -4.0, 3.0)


# Intervals


def flips(accuracy: dict[str, float], n: int, seed: int) -> list[Environment]:
    """Environments in which predicting 1 is right with the given chance."""
    random = generator(seed, "flips")
    return [Environment(e, torch.zeros(n, 1), torch.rand(n, generator=random) < a) for e, a in accuracy.items()]


def test_intervals_are_ordered_and_hold_their_score():
    scores = score(
        predictor(lambda z: z + 1), flips({"a": 0.6, "b": 0.9, "c": 0.75}, 300, seed=0), Bernoulli(), intervals=True
    )
    assert set(scores.intervals) == {"a", "b", "c", "mean", "worst", "gap"}
    values = scores.by_environment | {"mean": scores.mean, "worst": scores.worst, "gap": scores.gap}
    for name, (low, high) in scores.intervals.items():
        assert low < values[name] < high
    a, b = scores.intervals["a"], scores.intervals["b"]
    assert a[1] < b[0]  # 0.6 and 0.9 are told apart


def test_intervals_cover_the_truth_about_95_times_in_100():
    truth = {"a": 0.7, "b": 0.85}
    goals = truth | {"mean": 0.775, "gap": 0.15}
    covered = dict.fromkeys(goals, 0)
    for seed in range(120):
        made = flips(truth, 250, seed)
        intervals = score(predictor(lambda z: z + 1), made, Bernoulli(), intervals=True).intervals
        for name, goal in goals.items():
            covered[name] += intervals[name][0] <= goal <= intervals[name][1]
    for count in covered.values():
        assert 104 <= count <= 119  # 114 ± 4 standard errors, below


def test_intervals_shrink_with_more_samples_and_are_the_same_every_time():
    def width(n: int) -> float:
        first, again = (
            score(predictor(lambda z: z + 1), flips({"a": 0.7}, n, 1), Bernoulli(), intervals=True) for _ in range(2)
        )
        assert first == again
        low, high = first.intervals["a"]
        return high - low

    assert width(2500) == pytest.approx(width(100) / 5, rel=0.35)


def test_the_interval_of_an_accuracy_is_wilsons_in_a_model_and_in_counts():
    (made,) = flips({"a": 0.7}, 40, 0)
    scores = score(predictor(lambda z: z + 1), [made], Bernoulli(), intervals=True)
    counted = Scores.of_counts({"a": int(made.y.sum())}, {"a": 40})
    assert counted.by_environment == scores.by_environment
    assert scores.intervals["a"] == pytest.approx(counted.intervals["a"])
    assert scores.intervals["a"] == pytest.approx(scores.intervals["mean"])
    assert scores.intervals["gap"] == (0, 0)


def test_a_weight_is_a_repetition_in_scores_risk_and_intervals():
    x, y = torch.tensor([[1.0], [1.0], [-1.0], [-2.0]]), torch.tensor([1, 0, 0, 1])
    model, twice = predictor(lambda z: z), torch.tensor([0, 0, 1, 2, 2, 3])
    weighted = Environment("a", x, y, torch.tensor([2.0, 1.0, 2.0, 1.0]))
    repeated = Environment("a", x[twice], y[twice])
    assert score(model, [weighted], Bernoulli()).mean == pytest.approx(score(model, [repeated], Bernoulli()).mean)
    held = [validate(model, [made], Bernoulli()) for made in (weighted, repeated)]
    assert held[0].scores.mean == pytest.approx(held[1].scores.mean)
    assert held[0].risk == pytest.approx(held[1].risk)
    low, high = score(model, [weighted], Bernoulli(), intervals=True).intervals["a"]
    narrow = score(model, [repeated], Bernoulli(), intervals=True).intervals["a"]
    assert low < narrow[0] < narrow[1] < high  # four rows of unequal weight say less than six


def test_an_interval_of_squared_errors_covers_their_mean():
    y = torch.randn(400, generator=generator(3))
    found = score(predictor(lambda z: z), [Environment("e", torch.zeros(400, 1), y)], Gaussian(), intervals=True)
    low, high = found.intervals["e"]
    assert low < found.mean < high
    assert high - low == pytest.approx(2 * 1.96 * float(y.square().std()) / 20, rel=0.01)


def test_there_are_no_intervals_unless_asked_for():
    assert score(predictor(lambda z: z + 1), flips({"a": 0.7}, 10, 0), Bernoulli()).intervals is None


# Collapse


def constant(*values: float) -> Model:
    return predictor(lambda z: torch.tensor(values).expand(len(z), -1))


def known(family: Family) -> list[Environment]:
    """Targets that can be read off the first input, as often one as another."""
    x = torch.linspace(-1, 1, 600).unsqueeze(1)
    y = {Bernoulli(): x > 0, Categorical(3): ((x + 1) * 1.4999).long(), Gaussian(): x}[family].squeeze(1)
    return [Environment("even", x[::2], y[::2]), Environment("odd", x[1::2], y[1::2])]


def shuffled(z: Tensor) -> Tensor:
    return z[torch.randperm(len(z), generator=generator(1))]


@pytest.mark.parametrize(
    ("family", "model"),
    [
        pytest.param(Bernoulli(), constant(0.3), id="all 1"),
        pytest.param(Bernoulli(), constant(-2.0), id="all 0"),
        pytest.param(Bernoulli(), predictor(lambda z: z * 1e-3 + 5), id="all above the threshold"),
        pytest.param(Categorical(3), constant(0.0, 2.0, 1.0), id="all class 1"),
        pytest.param(Gaussian(), constant(0.0), id="the mean"),
        pytest.param(Gaussian(), constant(0.7), id="another number"),
        pytest.param(Gaussian(), predictor(lambda z: z * 1e-3), id="next to the mean"),
        pytest.param(Gaussian(), constant(math.nan), id="nan"),
        pytest.param(Gaussian(), predictor(shuffled), id="noise"),
    ],
)
def test_a_predictor_no_better_than_a_constant_has_collapsed(family, model):
    assert validate(model, known(family), family).collapsed


@pytest.mark.parametrize(
    ("family", "model"),
    [
        pytest.param(Bernoulli(), predictor(lambda z: z), id="classes"),
        pytest.param(Bernoulli(), predictor(lambda z: z * 1e-9), id="tiny logits"),
        pytest.param(Categorical(3), predictor(lambda z: torch.cat([-z, 0.3 - z.abs(), z], 1)), id="three classes"),
        pytest.param(Gaussian(), predictor(lambda z: z), id="numbers"),
        pytest.param(Gaussian(), predictor(lambda z: 0.1 * z), id="numbers, timidly"),
    ],
)
def test_a_predictor_that_reads_its_inputs_has_not_collapsed(family, model):
    assert not validate(model, known(family), family).collapsed


@pytest.mark.parametrize(("gained", "expected"), [(0, True), (1, True), (3, False), (80, False)])
def test_collapse_is_less_than_a_point_over_the_commonest_class(gained, expected):
    y = torch.ones(200)
    y[:80] = 0
    x = torch.ones(200, 1)
    x[:gained] = -1  # so many of the rarer class are found
    assert validate(predictor(lambda z: z), [Environment("e", x, y)], Bernoulli()).collapsed is expected


def test_whole_numbers_are_targets_too():
    x = torch.arange(20.0).unsqueeze(1)
    environment = Environment("counts", x, torch.arange(20))
    assert score(predictor(lambda z: z), [environment], Gaussian()).mean == 0
    assert not validate(predictor(lambda z: z), [environment], Gaussian()).collapsed


def test_held_out_samples_give_the_scores_and_the_risk_that_one_pass_for_each_gives():
    made = [Environment(name, torch.randn(n, 1), torch.rand(n).round()) for name, n in (("a", 50), ("b", 70))]
    model = predictor(lambda z: 3 * z)
    held = validate(model, made, Bernoulli())
    assert held.scores == score(model, made, Bernoulli())
    risks = [Bernoulli().loss(outputs(model, e.x), e.y).mean() for e in made]
    assert held.risk == pytest.approx(float(sum(risks)) / 2, rel=1e-6)


@pytest.mark.parametrize(("rates", "told"), [((0.1, 0.2), True), ((0.25, 0.25), False)])
def test_environments_are_told_apart_where_the_model_errs_more_in_one(rates, told):
    n = 4000
    x = torch.randn(2 * n, 1).sign()
    wrong = torch.cat([torch.arange(n) < rate * n for rate in rates])
    y = ((x.squeeze() > 0) ^ wrong).float()
    made = [Environment("a", x[:n], y[:n]), Environment("b", x[n:], y[n:])]
    assert (validate(predictor(lambda z: 2 * z), made, Bernoulli()).homogeneity < 0.01) is told


# Outputs


@pytest.mark.parametrize("training", [True, False])
def test_outputs_are_those_of_evaluation_mode_and_leave_the_mode_as_it_was(training):
    model = Model(nn.Dropout(0.5), nn.Linear(3, 1)).train(training)
    x = torch.randn(10, 3, generator=generator(0))
    got = outputs(model, x)
    assert model.training is training
    assert model.features.training is training
    assert torch.equal(got, model.eval()(x))
    assert not got.requires_grad


def test_outputs_in_slices_are_outputs_in_one_piece():
    model = MLP(width=4).build((3,), 2)
    x = torch.randn(10, 3, generator=generator(0))
    torch.testing.assert_close(outputs(model, x, rows=3), outputs(model, x))
    assert outputs(model, x, rows=3).shape == (10, 2)


def test_taking_rows_of_a_mechanism_keeps_everything_else():
    mechanism = Mechanism((torch.zeros(4, 1), torch.ones(4, 1)), torch.tensor([True, False, True, False]), 0.3, (0.2,))
    part = mechanism.take(torch.tensor([2, 1]))
    assert part.t.tolist() == [True, False]
    assert (len(part), part.alpha, part.betas) == (2, 0.3, (0.2,))


@pytest.mark.parametrize("family", [Categorical(5), Gaussian()])
def test_a_mechanism_is_scored_for_two_classes_only(family):
    benchmark = TwoBit(samples=8).load(seed=0)
    model = MLP(width=4).build(benchmark.input_shape, family.outputs)
    with pytest.raises(BadValue, match="two classes"):
        exact(model, benchmark.mechanism, family)


def test_sampling_without_a_mechanism_is_refused():
    environment = Environment("Lyon", torch.zeros(3, 2), torch.zeros(3))
    benchmark = Benchmark(Bernoulli(), (environment,), test=(environment,))
    with pytest.raises(BadValue, match="no mechanism"):
        evaluate(MLP(width=4).build((2,), 1), benchmark, sampling=True)
