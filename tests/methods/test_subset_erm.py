"""Subset ERM leaves inputs out of the model."""

import numpy as np
import pytest
import torch

from invariance import InvariantClassifier, SubsetERM, load, save
from invariance.core.seeding import generator
from invariance.models.linear import Linear
from invariance.models.resnet import ResNet


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 300)
    cause = y + random.normal(size=300)
    year = 2000 + 3 * y + random.normal(size=300)
    return np.column_stack([cause, year]), y, np.arange(300) % 3


def test_inputs_that_are_left_out_change_nothing(table):
    X, y, e = table
    model = InvariantClassifier(SubsetERM(without=(1,)), hidden=()).fit(X, y, environments=e)
    moved, other = X + np.array([0, 100]), X + np.array([1, 0])
    assert np.array_equal(model.predict_proba(moved), model.predict_proba(X))
    assert model.coef_[0, 1] == 0
    assert not np.array_equal(model.predict_proba(other), model.predict_proba(X))


def test_it_is_erm_on_the_other_columns(table):
    X, y, e = table
    subset = InvariantClassifier(SubsetERM(l2=3e-4, without=(1,)), hidden=()).fit(X, y, environments=e)
    erm = InvariantClassifier("erm", hidden=()).fit(X[:, :1], y, environments=e)
    assert subset.predict_proba(X) == pytest.approx(erm.predict_proba(X[:, :1]), abs=0.01)


def test_it_is_saved_with_its_subset(table, tmp_path):
    X, y, e = table
    model = InvariantClassifier(SubsetERM(without=(1,)), hidden=(4,)).fit(X, y, environments=e)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.method_ == model.method_
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


def test_channels_of_images_are_left_out():
    architecture = ResNet(width=8)
    model = SubsetERM(without=(0, 2)).prepare(architecture.build((3, 16, 16), 1), 2, generator(0, "objective")).eval()
    x = torch.rand(2, 3, 16, 16)
    other = x.clone()
    other[:, [0, 2]] = 0.5
    assert torch.equal(model(x), model(other))


def test_without_a_list_it_is_erm():
    model = Linear().build((3,), 1)
    assert SubsetERM().prepare(model, 2, generator(0, "objective")) is model
    x = torch.rand(4, 3)
    assert SubsetERM().seen(x) is x
