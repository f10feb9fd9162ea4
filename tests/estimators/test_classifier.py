import pickle
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from torch import nn

from invariance.core.errors import BadValue, UnknownName
from invariance.estimators.classifier import InvariantClassifier
from invariance.estimators.network import Standard
from invariance.methods import METHODS
from invariance.methods.birm import BIRM
from invariance.methods.irmv1 import IRMv1
from invariance.recipes.presets import recipe

ONE = "with one environment there is nothing to be invariant across"


@pytest.fixture
def fit(small, quick):
    """Fit on the small table."""

    def make(method="rex", environments=small.site, sample_weight=None, **parameters) -> InvariantClassifier:
        model = InvariantClassifier(method, **{"recipe": quick, **parameters})
        return model.fit(small.X, small.y, environments=environments, sample_weight=sample_weight)

    return make


# Methods and recipes


@pytest.mark.parametrize("method", sorted(METHODS.classes.keys() - {"grayscale"}))
def test_every_method_is_known_by_its_name(fit, small, method):
    model = fit(method)
    assert METHODS.name(model.method_) == method
    assert model.predict_proba(small.X).sum(1) == pytest.approx(1)


def test_methods_and_recipes_come_as_values_too(fit):
    objective, how = IRMv1(gamma=7.0), recipe("full-batch", changes={"epochs": 3})
    model = fit(objective, recipe=how)
    assert model.method_ is objective
    assert model.history_[-1].step == 3
    assert fit("erm", recipe="short-full").history_[-1].step == 100


def test_debiasing_keeps_the_precision_of_the_table(fit):
    assert fit("irmv1", recipe="debiased").module_.head.weight.dtype == torch.float64


@pytest.mark.parametrize(
    ("parameters", "error", "says"),
    [
        ({"method": "irmv7"}, UnknownName, "no method is called 'irmv7'. Did you mean"),
        ({"method": "grayscale"}, BadValue, "without their spurious part"),
        ({"recipe": "long"}, UnknownName, "no recipe is called 'long'"),
        ({"selection": "oracle"}, UnknownName, "no selection rule for a table is called 'oracle'"),
        ({"selection": "training-domain", "validation_fraction": 1.5}, BadValue, "validation_fraction is 1.5"),
        ({"hidden": (3, 0)}, BadValue, "hidden is .3, 0."),
        ({"hidden": 3}, BadValue, "hidden is 3"),
        ({"device": "abacus"}, BadValue, "device 'abacus' is not available"),
        ({"features": nn.Unflatten(1, (2, 3))}, BadValue, "features returns shape"),
        ({"features": nn.Linear(5, 2)}, BadValue, "features cannot take"),
        ({"features": "resnet"}, BadValue, "features is 'resnet'"),
    ],
)
def test_what_cannot_be_is_one_line(fit, parameters, error, says):
    with pytest.raises(error, match=says) as caught:
        fit(**parameters)
    assert "\n" not in str(caught.value)


# Environments


def test_without_environments_it_warns_and_is_erm(fit, small):
    with pytest.warns(UserWarning, match=ONE):
        model = fit(environments=None)
    with pytest.warns(UserWarning, match=ONE):
        fit("auto", environments=["Lyon"] * len(small.y))
    assert METHODS.name(model.method_) == "erm"
    with pytest.raises(UnknownName):
        fit("irmv7", environments=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = fit("erm", environments=None)
    assert (plain.predict_proba(small.X) == model.predict_proba(small.X)).all()


def test_scores_are_of_each_environment(fit, small):
    model = fit()
    assert list(model.scores_.by_environment) == ["Bern", "Graz", "Lyon"] == model.environments_.tolist()
    for name, score in model.scores_.by_environment.items():
        rows = small.site == name
        assert score == pytest.approx(model.score(small.X[rows], small.y[rows]))
    assert [checkpoint.step for checkpoint in model.history_] == list(range(2, 21, 2))


def test_a_weight_is_a_repetition_and_zero_is_none(fit, small, quick):
    times = np.arange(len(small.y)) % 4
    weighted = fit(sample_weight=times)
    repeated = InvariantClassifier("rex", recipe=quick).fit(
        small.X.repeat(times, 0), small.y.repeat(times), environments=small.site.repeat(times)
    )
    assert weighted.decision_function(small.X) == pytest.approx(repeated.decision_function(small.X), abs=1e-8)
    assert weighted.scores_.by_environment == pytest.approx(repeated.scores_.by_environment)
    assert fit(sample_weight=(small.site != "Bern")).environments_.tolist() == ["Graz", "Lyon"]


# Classes


def test_two_classes_have_one_logit_and_many_have_one_each(fit, small, quick):
    model = fit()
    f = model.decision_function(small.X)
    assert f.shape == (90,)
    assert model.predict_proba(small.X)[:, 1] == pytest.approx(1 / (1 + np.exp(-f)))
    assert (model.predict(small.X) == np.where(f > 0, "well", "sick")).all()
    X, y = load_iris(return_X_y=True)
    model = InvariantClassifier("rex", recipe=recipe("short-full", changes={"lr": 0.01})).fit(
        X, y, environments=np.arange(len(y)) % 3
    )
    assert model.decision_function(X).shape == model.predict_proba(X).shape == (150, 3)
    assert model.score(X, y) > 0.9


def test_one_class_is_refused(small, quick):
    with pytest.raises(BadValue, match="y holds one class, 'sick'"):
        InvariantClassifier(recipe=quick).fit(small.X, ["sick"] * 90, environments=small.site)


# Inputs


def test_columns_are_standardised_by_training_rows_alone(fit, small):
    model = fit(features=nn.Identity())
    standard = model.module_.features[0]
    assert isinstance(standard, Standard)
    assert standard.mean.numpy() == pytest.approx(small.X.mean(0))
    assert standard.scale.numpy() == pytest.approx(small.X.std(0))
    before = standard.mean.clone()
    model.predict(small.X + 100)
    assert torch.equal(standard.mean, before)


def test_neither_units_nor_constant_columns_matter(fit, small, quick):
    X = np.hstack([1e6 + 1e3 * small.X, np.full((90, 1), 7.0)])
    model = InvariantClassifier("rex", recipe=quick, features=nn.Identity()).fit(X, small.y, environments=small.site)
    assert model.module_.features[0].scale[-1] == 1
    assert model.module_.features(torch.tensor(X))[:, -1].abs().max() == 0
    assert np.isfinite(model.predict_proba(X + 1)).all()


def test_a_module_of_ones_own_gives_the_features_and_stays_as_it_was(fit, small):
    own = nn.Sequential(nn.Linear(6, 4), nn.Tanh())
    before = own[0].weight.detach().clone()
    model = fit(features=own)
    assert model.module_.head.in_features == 4
    assert torch.equal(own[0].weight, before)
    assert not torch.equal(model.module_.features[1][0].weight, before.double())


def test_pictures_go_through_a_module_of_ones_own(quick):
    X = np.random.default_rng(0).normal(size=(30, 3, 4, 4)).astype(np.float32) + np.array([0, 5, 9])[:, None, None]
    own = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten())
    model = InvariantClassifier("rex", recipe=quick, features=own)
    model.fit(X.astype(np.float32), np.arange(30) % 2, environments=np.arange(30) % 3)
    assert model.module_.features[0].mean.flatten().tolist() == pytest.approx([0, 5, 9], abs=0.2)
    assert model.predict(X).shape == (30,)


def test_no_hidden_layer_is_a_linear_model(fit, small):
    f = fit(hidden=()).decision_function
    middle = (small.X[:1] + small.X[1:2]) / 2
    assert f(middle) == pytest.approx(f(small.X[:2]).mean(), abs=1e-9)


# Selection


def test_training_domain_selection_takes_the_best_moment_on_rows_kept_aside(fit, small):
    model = fit("birm", selection="training-domain", validation_fraction=0.3, recipe=recipe("short-full"))
    values = [checkpoint.validation.mean for checkpoint in model.history_]
    assert model.scores_.mean == pytest.approx(max(values))
    assert isinstance(model.method_, BIRM)


def test_leave_one_environment_out_selection_holds_environments_out(fit):
    model = fit(selection="leave-one-environment-out")
    assert len(model.history_) == 10


# As scikit-learn's own


def test_it_clones_and_pickles(fit, small):
    model = fit(features=nn.Linear(6, 3))
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict_proba(small.X) == model.predict_proba(small.X)).all()
    fresh = clone(model)
    assert not hasattr(fresh, "module_")
    fresh.fit(small.X, small.y, environments=small.site)
    assert (fresh.predict_proba(small.X) == model.predict_proba(small.X)).all()


def test_the_seed_decides_and_none_draws_another_each_time(fit, small):
    def answers(seed: object) -> list[float]:
        return fit(random_state=seed).decision_function(small.X).tolist()

    assert answers(3) == answers(3) != answers(4)
    assert answers(np.random.RandomState(0)) == answers(np.random.RandomState(0))
    assert answers(None) != answers(None)


def test_it_says_what_it_does_where_asked(fit, capsys):
    fit()
    assert capsys.readouterr().out == ""
    fit(verbose=True)
    assert capsys.readouterr().out.startswith("after 2 updates: score 0.")
