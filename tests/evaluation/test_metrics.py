import math

import numpy as np
import pytest
from sklearn import metrics as reference

from invariance.core.errors import UnknownName
from invariance.evaluation.metrics import METRICS, criterion, relative_risk

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 300)
P = RNG.dirichlet(np.ones(3), 300)
P[np.arange(300), Y] += 0.5
P /= P.sum(1, keepdims=True)
WEIGHT = RNG.random(300)
BINARY, SIDE = P[:, :2] / P[:, :2].sum(1, keepdims=True), (Y > 0).astype(int)


def test_metrics_of_classes_are_those_of_scikit_learn():
    value = {name: metric.value(BINARY, SIDE, WEIGHT) for name, metric in METRICS.items() if metric.classes}
    given = {"sample_weight": WEIGHT}
    assert value["log-loss"] == pytest.approx(reference.log_loss(SIDE, BINARY, **given))
    assert value["accuracy"] == pytest.approx(reference.accuracy_score(SIDE, BINARY.argmax(1), **given))
    assert value["auc"] == pytest.approx(reference.roc_auc_score(SIDE, BINARY[:, 1], **given))
    assert value["average-precision"] == pytest.approx(reference.average_precision_score(SIDE, BINARY[:, 1], **given))


def test_with_more_classes_each_is_compared_with_the_rest():
    expected = reference.roc_auc_score(Y, P, multi_class="ovr", average="macro")
    assert METRICS["auc"].value(P, Y, None) == pytest.approx(expected)


def test_metrics_of_numbers_are_those_of_scikit_learn():
    y = RNG.normal(size=300)
    predicted = y + RNG.normal(size=300)
    value = {name: metric.value(predicted, y, WEIGHT) for name, metric in METRICS.items() if not metric.classes}
    given = {"sample_weight": WEIGHT}
    assert value["rmse"] == pytest.approx(reference.root_mean_squared_error(y, predicted, **given))
    assert value["mae"] == pytest.approx(reference.mean_absolute_error(y, predicted, **given))
    assert value["r2"] == pytest.approx(reference.r2_score(y, predicted, **given))


def test_what_is_not_defined_is_not_a_number():
    assert math.isnan(METRICS["auc"].value(BINARY, np.zeros(300), None))
    assert math.isnan(METRICS["r2"].value(np.ones(3), np.ones(3), None))


@pytest.mark.parametrize("positives", [0.5, 0.02])
def test_the_best_constant_has_risk_one_however_rare_a_class_is(positives):
    y = (np.arange(1000) < 1000 * positives).astype(int)
    constant = np.tile([1 - positives, positives], (1000, 1))
    assert relative_risk(constant, y) == pytest.approx(1)
    assert criterion("auto", classes=True).cost(constant, y) == pytest.approx(1)
    numbers = RNG.normal(size=1000)
    assert relative_risk(np.full(1000, numbers.mean()), numbers) == pytest.approx(1)


def test_a_gain_costs_the_same_by_the_error_and_by_its_square():
    y = RNG.normal(size=1000)
    predicted = y + 0.5 * RNG.normal(size=1000)
    costs = [criterion(name, classes=False).cost(predicted, y) for name in ("auto", "rmse", "r2")]
    assert costs == pytest.approx([relative_risk(predicted, y)] * 3)


def test_a_criterion_is_about_the_positive_class():
    first = criterion("average-precision", classes=True, positive=0)
    assert first.cost(BINARY, SIDE) == 1 - METRICS["average-precision"].value(BINARY[:, ::-1], 1 - SIDE, None)
    assert first.cost(BINARY, SIDE) != criterion("average-precision", classes=True).cost(BINARY, SIDE)


def test_a_criterion_is_a_metric_in_the_worst_case_or_on_average():
    assert criterion("auc", classes=True).worst
    mean = criterion("mean-auc", classes=True)
    assert not mean.worst
    assert mean.cost(BINARY, SIDE) == pytest.approx(1 - METRICS["auc"].value(BINARY, SIDE, None))


@pytest.mark.parametrize(("name", "classes"), [("rmse", True), ("auc", False), ("acuracy", True)])
def test_a_metric_of_the_other_kind_is_refused(name, classes):
    with pytest.raises(UnknownName):
        criterion(name, classes=classes)
