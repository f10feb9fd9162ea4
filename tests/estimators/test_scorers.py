import numpy as np
import pytest
import sklearn
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from invariance.core.errors import BadValue
from invariance.estimators.classifier import InvariantClassifier
from invariance.estimators.scorers import accuracy_gap, average_accuracy, worst_environment, worst_environment_accuracy

Y, SITE = ["no", "no", "no", "yes", "no", "yes"], ["a", "a", "a", "a", "b", "b"]


@pytest.fixture
def routing():
    """Metadata routing, as users switch it on."""
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_scores_are_over_environments_not_rows():
    always_no = DummyClassifier().fit(np.zeros((6, 1)), Y)
    score = {s.name: s(always_no, np.zeros((6, 1)), Y, environments=SITE) for s in SCORERS}
    assert score == {"average_accuracy": 0.625, "worst_environment_accuracy": 0.5, "accuracy_gap": -0.25}


SCORERS = (average_accuracy, worst_environment_accuracy, accuracy_gap)


def test_a_scorer_without_environments_says_what_it_needs():
    with pytest.raises(BadValue, match="accuracy_gap needs environments="):
        accuracy_gap(DummyClassifier().fit([[0]], [1]), [[0]], [1])


def test_a_grid_over_a_pipeline_leaves_environments_out_with_one_keyword(routing, small, quick):
    model = make_pipeline(StandardScaler(), InvariantClassifier("rex", recipe=quick))
    grid = {"invariantclassifier__hidden": [(), (8,)]}
    cv = LeaveOneGroupOut().set_split_request(groups="environments")
    scoring = {scorer.name: scorer for scorer in SCORERS}
    search = GridSearchCV(model, grid, cv=cv, scoring=scoring, refit="worst_environment_accuracy", error_score="raise")
    search.fit(small.X, small.y, environments=small.site)
    assert search.n_splits_ == 3
    assert search.best_estimator_[-1].environments_.tolist() == ["Bern", "Graz", "Lyon"]
    assert (search.cv_results_["mean_test_accuracy_gap"] == 0).all()  # one environment in every fold
    assert (search.cv_results_["std_test_average_accuracy"] > 0).all()


def test_each_fold_trains_without_the_environment_it_is_scored_in(routing, small, quick):
    done = cross_validate(
        InvariantClassifier("rex", recipe=quick),
        small.X,
        small.y,
        params={"environments": small.site},
        cv=LeaveOneGroupOut().set_split_request(groups="environments"),
        scoring=average_accuracy,
        return_estimator=True,
        error_score="raise",
    )
    trained = [model.environments_.tolist() for model in done["estimator"]]
    assert trained == [["Graz", "Lyon"], ["Bern", "Lyon"], ["Bern", "Graz"]]
    model, rows = done["estimator"][0], small.site == "Bern"
    assert done["test_score"][0] == pytest.approx(model.score(small.X[rows], small.y[rows]))


def test_a_pipeline_without_routing_takes_them_by_its_steps_name(small, quick):
    model = make_pipeline(StandardScaler(), InvariantClassifier("rex", recipe=quick))
    model.fit(small.X, small.y, invariantclassifier__environments=small.site)
    assert len(model[-1].environments_) == 3


def test_the_worst_environment_is_the_lowest_fold_not_the_average():
    results = {
        "split0_test_score": np.array([0.9, 0.7]),
        "split1_test_score": np.array([0.3, 0.6]),
        "mean_test_score": np.array([0.6, 0.65]),
    }
    assert worst_environment(results) == 1
    with pytest.raises(BadValue, match="needs one scorer"):
        worst_environment({"split0_test_auc": np.array([1.0])})
