"""One thread, one hypothesis profile, and the small problems the tests share."""

from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import HealthCheck, settings
from torch import nn

from invariance.core import Environment, generator
from invariance.families import Bernoulli, Categorical, Family
from invariance.models.base import Model, linear

torch.set_num_threads(1)

settings.register_profile(
    "house",
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("house")


@pytest.fixture
def double() -> Iterator[None]:
    """New tensors are float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="session")
def environments() -> Callable[..., tuple[Environment, ...]]:
    """Random environments of the given sizes, called a, b, c, …"""

    coin = Bernoulli()

    def make(*sizes: int, inputs: int = 3, family: Family = coin, seed: int = 0) -> tuple[Environment, ...]:
        made = []
        for name, n in zip("abcdefgh", sizes, strict=False):
            random = generator(seed, "data", name)
            x = torch.randn(n, inputs, generator=random)
            match family:
                case Bernoulli():
                    y = torch.randint(2, (n,), generator=random)
                case Categorical(classes):
                    y = torch.randint(classes, (n,), generator=random)
                case _:
                    y = torch.randn(n, generator=random)
            made.append(Environment(name, x, y))
        return tuple(made)

    return make


@pytest.fixture(scope="session")
def smooth() -> Callable[..., Model]:
    """A model without kinks, whose parameters, biases too, are all random."""

    def make(inputs: int = 3, width: int = 4, outputs: int = 1, *, seed: int = 0, deep: bool = False) -> Model:
        random = generator(seed, "weights")
        features = nn.Sequential(linear(inputs, width, random), nn.Tanh())
        head: nn.Module = linear(width, outputs, random)
        if deep:
            head = nn.Sequential(linear(width, 3, random), nn.Tanh(), linear(3, outputs, random))
        model = Model(features, head)
        with torch.no_grad():
            for p in model.parameters():
                p.normal_(0, 0.7, generator=random)
        return model

    return make
