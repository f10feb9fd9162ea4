"""A row of weight k counts as k rows, in every method."""

import pytest
import torch

from invariance.core.batch import Batch
from invariance.core.environment import Environment
from invariance.core.errors import BadValue
from invariance.core.families import Bernoulli, Categorical, Gaussian
from invariance.core.seeding import generator
from invariance.methods import METHODS
from invariance.recipes.schedules import Clock

WHOLE = {"birm": {"estimator": "squared"}}
"""The split estimator is of two halves of the rows, which are others when rows are repeated."""


def both(environments, family) -> tuple[Batch, Batch]:
    """The same samples with weights 1 to 3, and with each row so often."""
    weighted, repeated = [], []
    for e in environments(7, 5, 6, family=family):
        times = torch.arange(len(e)) % 3 + 1
        weighted.append(Environment(e.name, e.x.double(), e.y, times))
        repeated.append(Environment(e.name, e.x.double().repeat_interleave(times, 0), e.y.repeat_interleave(times)))
    return Batch.of(weighted, family), Batch.of(repeated, family)


@pytest.mark.parametrize("family", [Bernoulli(), Categorical(3), Gaussian()], ids=str)
@pytest.mark.parametrize("method", METHODS.classes)
def test_weights_are_repetitions_in_every_move_of_every_method(environments, smooth, double, method, family):
    objective = METHODS.create(method, WHOLE.get(method))
    values = []
    for batch in both(environments, family):
        model = objective.prepare(smooth(outputs=family.outputs), 3, generator(0, "objective"))
        moves = objective.moves(model, batch, Clock(90, 100, 10), generator(0, "noise"))
        values.append([move.loss().item() for move in moves])
    weighted, repeated = values
    assert weighted == pytest.approx(repeated, rel=1e-10)


def test_weights_follow_their_rows(environments):
    a, b = environments(4, 4)
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0])
    batch = Batch.of([Environment("a", a.x, a.y, weight), b], Bernoulli())
    assert batch.weight.tolist() == [1, 2, 3, 4, 1, 1, 1, 1]
    assert batch.take(torch.tensor([3, 1, 4]), (2, 1)).weight.tolist() == [4, 2, 1]
    assert batch.only(0).weight.tolist() == [1, 2, 3, 4]
    assert batch.mean(batch.x)[0].tolist() == pytest.approx((weight @ a.x / 10).tolist())


@pytest.mark.parametrize("weight", [[1.0, 0.0], [1.0, -1.0], [1.0], [1.0, float("nan")]])
def test_weights_are_one_positive_number_a_row(weight):
    with pytest.raises(BadValue, match="one positive weight per sample"):
        Environment("a", torch.ones(2, 1), torch.ones(2), torch.tensor(weight))
