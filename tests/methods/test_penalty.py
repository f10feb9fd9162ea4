"""A penalty in another training loop is the penalty of our own."""

import pytest
import torch
from torch import nn

from invariance import Bernoulli, Categorical, Fishr, Gaussian, IRMv1, penalty
from invariance.core.batch import Batch
from invariance.core.errors import BadValue
from invariance.methods import METHODS
from invariance.methods.base import PenalisedMethod
from invariance.models.base import Model, linear

STANDALONE = [n for n, cls in METHODS.classes.items() if issubclass(cls, PenalisedMethod) and cls.standalone]


@pytest.fixture
def rows():
    """Features, a linear head and environments in no order, for one output or several."""

    def make(outputs: int = 1):
        random = torch.Generator().manual_seed(1)
        z = torch.randn(60, 4, generator=random, requires_grad=True)
        head = linear(4, outputs, random)
        y = torch.randint(max(2, outputs), (60,), generator=random)
        return z, head, y, torch.randint(3, (60,), generator=random)

    return make


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("name", STANDALONE)
def test_it_equals_the_penalty_of_a_batch_sorted_by_environment(name, outputs, rows):
    z, head, y, environment = rows(outputs)
    method = METHODS.create(name, {"tau": 0.0} if name == "birm" else {})  # the same scales in both
    found = penalty(method)(head(z), y, environment, features=z)
    order = environment.argsort(stable=True)
    family = Bernoulli() if outputs == 1 else Categorical(outputs)
    counts = tuple(environment.bincount().tolist())
    batch = Batch(z[order], family.check(y[order], "y"), counts, family)
    model = method.prepare(Model(nn.Identity(), head), 3, torch.Generator())
    expected = method.measure(model, batch, z[order], head(z)[order])
    torch.testing.assert_close(found, expected)
    assert torch.autograd.grad(found, z)[0].abs().max() > 0


@pytest.mark.parametrize("name", [n for n in METHODS.classes if n not in STANDALONE])
def test_methods_that_are_more_than_a_penalty_are_refused(name):
    with pytest.raises(BadValue, match=r"train it with invariance\.train, or use one of birm, fishr"):
        penalty(name)


def test_numbers_and_whole_numbers_are_told_apart_by_their_type(rows):
    z, head, y, environment = rows()
    f = head(z).squeeze(1)
    assert penalty("rex")(f, y.double() + 0.5, environment) >= 0
    with pytest.raises(BadValue, match=r"y\.long\(\)"):
        penalty("rex")(f, y.float(), environment)
    as_numbers = penalty("rex", family=Gaussian())(f, y.float(), environment)
    assert as_numbers != penalty("rex", family=Bernoulli())(f, y.float(), environment)


def test_what_cannot_be_computed_is_said_in_one_line(rows):
    z, head, y, environment = rows()
    f = head(z)
    with pytest.raises(BadValue, match="at least two"):
        penalty("irmv1")(f, y, torch.zeros_like(environment))
    with pytest.raises(BadValue, match=r"give features=z .*got none"):
        penalty("irmv0")(f, y, environment)
    with pytest.raises(BadValue, match=r"expected \[n\] or \[n, K\]"):
        penalty("irmv1")(f, y[:-1], environment)
    with pytest.raises(BadValue, match="whole number per row"):
        penalty("irmv1")(f, y, environment.float())
    with pytest.raises(BadValue, match="ema=0"):
        penalty(Fishr(ema=0.9))
    assert penalty(IRMv1(estimator="split")).method.estimator == "split"


def test_outputs_that_are_whole_numbers_are_refused():
    y = torch.tensor([0, 1, 0, 1])
    with pytest.raises(BadValue, match=r"outputs are torch\.int64"):
        penalty("irmv1")(y, y, torch.tensor([0, 0, 1, 1]))
