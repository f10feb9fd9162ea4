"""A grid search that leaves one environment out at a time, with one keyword.

The classes are three kinds of wine, and the environments five vintages, drawn at random.
"""

import numpy as np
import sklearn
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer

from invariance import InvariantClassifier, REx, recipe, worst_environment_accuracy

sklearn.set_config(enable_metadata_routing=True)

X, y = load_wine(return_X_y=True)
vintage = np.random.default_rng(0).integers(2019, 2024, len(y))

quick = recipe("short-full", changes={"lr": 0.02, "epochs": 30})
model = make_pipeline(PowerTransformer(), InvariantClassifier(recipe=quick))
grid = {
    "invariantclassifier__method": ["erm", REx(gamma=10.0, divide_by="nothing")],
    "invariantclassifier__hidden": [(), (8,)],
}
one_out = LeaveOneGroupOut().set_split_request(groups="environments")
search = GridSearchCV(model, grid, cv=one_out, scoring=worst_environment_accuracy)
search.fit(X, y, environments=vintage)

for parameters, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
    print(f"{score:.3f} in vintages left out, with {parameters}")
