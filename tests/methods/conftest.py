"""One batch of three small environments."""

import pytest

from invariance.core.batch import Batch
from invariance.core.families import Bernoulli


@pytest.fixture
def batch(environments) -> Batch:
    return Batch.of(environments(5, 6, 4), Bernoulli())
