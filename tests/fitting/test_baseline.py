"""What stands beside a model."""

import numpy as np
import pytest

from invariance.core.rows import Rows
from invariance.estimators.classifier import InvariantClassifier
from invariance.fitting.baseline import assess


@pytest.mark.parametrize(("sites", "title"), [(3, "Env-PoE"), (60, "REx")])
def test_an_invariant_method_that_can_be_afforded_stands_beside_erm(sites, title):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2)).astype(np.float32)
    y = np.where(x[:, 0] + rng.normal(size=300) > 0, "yes", "no")
    rows = Rows(x, y, np.arange(300) % sites, np.array([f"site {i:02}" for i in range(sites)]))
    erm = InvariantClassifier("erm", hidden=(), recipe={"epochs": 2}).fit_rows(rows)
    found = assess(erm, rows, None, ())
    assert [model.title for model in found.both] == ["ERM", title]
