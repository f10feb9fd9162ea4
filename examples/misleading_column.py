"""
A column that misleads at a new site
====================================

The table is scikit-learn's digits: ten pixels of a written digit, and whether it is 5 or more. Its rows are assigned to
five sites (the environments), and each gets one more column, a note that agrees with the label in most rows of three
sites and in few rows of the others: a habit of the site.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from invariance import InvariantClassifier

AGREES = {"Lyon": 0.98, "Bern": 0.95, "Graz": 0.3, "Turin": 0.9, "new": 0.05}

pixels, digit = load_digits(return_X_y=True)
y = np.where(digit >= 5, "high", "low")
rng = np.random.default_rng(0)
site = rng.permutation(np.resize(list(AGREES), len(y)))
agrees = rng.random(len(y)) < np.vectorize(AGREES.get)(site)
note = np.where((y == "high") == agrees, 1.0, -1.0) + 0.3 * rng.normal(size=len(y))
X = np.column_stack([pixels[:, 18:46:3], note])
new = site == "new"

plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[~new], y[~new])
model = InvariantClassifier(verbose=True).fit(X[~new], y[~new], environments=site[~new])
scores = {}
for name, fitted in {"logistic regression": plain, "InvariantClassifier": model}.items():
    known, unknown = scores[name] = tuple(fitted.score(X[rows], y[rows]) for rows in (~new, new))
    print(f"{name}: {known:.3f} at the sites it knows, {unknown:.3f} at a new one")

figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
for place, shares in enumerate(scores.values()):
    axis.bar([place - 0.2, place + 0.2], [100 * share for share in shares], 0.36, color=["C7", "C0"])
axis.set(ylabel="accuracy in %", ylim=(0, 100), xticks=range(len(scores)), xticklabels=scores)
axis.legend(axis.patches[:2], ["known sites", "new site"], frameon=False)
plt.show()
