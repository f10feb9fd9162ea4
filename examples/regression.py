"""
Regression with a cause and an effect
=====================================

Only the cause keeps its meaning from one environment to the next.

y = x + noise in every environment, and z = y + noise, less or more of it. z predicts y best in training and is useless
elsewhere.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression

from invariance import InvariantRegressor, REx

rng = np.random.default_rng(0)


def environment(rows: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows in which z is y plus noise of this size."""
    x = rng.normal(size=rows)
    y = x + 0.5 * rng.normal(size=rows)
    return np.column_stack([x, y + noise * rng.normal(size=rows)]), y


parts = [environment(400, noise) for noise in (0.1, 0.5, 1.5)]
X, y = (np.concatenate(column) for column in zip(*parts, strict=True))
where = np.repeat(["clean", "fair", "noisy"], 400)
X_new, y_new = environment(400, noise=10.0)

plain = LinearRegression().fit(X, y)
model = InvariantRegressor(REx(gamma=1e3, divide_by="nothing", l2=1e-3)).fit(X, y, environments=where)
print(f"LinearRegression:   R² {plain.score(X, y):.2f} in training, {plain.score(X_new, y_new):.2f} where z is noise")
print(f"InvariantRegressor: R² {model.score(X, y):.2f} in training, {model.score(X_new, y_new):.2f} where z is noise")

# %%
# The weights: both models use x and z, and the invariant one relies on x.
figure, axis = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
axis.bar([0, 1], plain.coef_, 0.36, label="LinearRegression", color="C3")
axis.bar([0.4, 1.4], model.coef_.ravel(), 0.36, label="InvariantRegressor", color="C0")
axis.set(xticks=[0.2, 1.2], xticklabels=["x, the cause", "z, the effect"], ylabel="coefficient")
axis.legend(frameon=False)
plt.show()
