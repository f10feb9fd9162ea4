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


@pytest.mark.parametrize(("shift", "same"), [(0.0, True), (2.0, False)])
def test_models_are_the_same_only_where_every_prediction_is(shift, same):
    rng = np.random.default_rng(0)
    codes, x = np.arange(600) % 4, rng.normal(size=(600, 2)).astype(np.float32)
    yes = x[:, 0] + rng.normal(size=600) > 0
    x[:, 1] += shift * np.where(codes == 0, -1, 1) * (yes - 0.5)  # a cue that turns at one site
    rows = Rows(x, np.where(yes, "yes", "no"), codes, np.array(list("abcd")))
    erm = InvariantClassifier("erm", hidden=()).fit_rows(rows)
    assert assess(erm, rows, None, ()).same == same
