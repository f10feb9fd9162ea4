"""
A torch module of your own
==========================

Any ``torch.nn.Module`` can be the features of a model. It is trained, saved and loaded again.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from torch import nn

import invariance


def features() -> nn.Module:
    """A small convolutional network: images [n, 1, 8, 8] to vectors [n, 64]."""
    return nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 16, 2), nn.ReLU(), nn.Flatten())


X, y = load_digits(return_X_y=True)
X = X.reshape(-1, 1, 8, 8).astype(np.float32)
scanner = np.arange(len(y)) % 3
X += 3 * scanner[:, None, None, None]  # each scanner is brighter than the one before

train = np.arange(len(y)) < 1200
recipe = invariance.recipe("short", changes={"batch_size": 200, "epochs": 15, "lr": 1e-2})
model = invariance.InvariantClassifier(
    invariance.REx(gamma=1.0, divide_by="nothing"), recipe=recipe, features=features()
)
model.fit(X[train], y[train], environments=scanner[train])
print(f"accuracy by scanner: {model.scores_.by_environment}, on other images {model.score(X[~train], y[~train]):.3f}")

figure, axes = plt.subplots(1, 6, figsize=(9, 1.9), layout="constrained")
for axis, row in zip(axes, range(1200, 1206), strict=True):
    axis.imshow(X[row, 0], cmap="gray", vmin=0, vmax=X.max())
    axis.set_title(f"{y[row]}, predicted {model.predict(X[row : row + 1])[0]}", fontsize=9)
    axis.set_axis_off()
plt.show()

# %%
# Weights are saved, and no code: to open the folder, give the same module again.
with TemporaryDirectory() as folder:
    invariance.save(model, folder, licence="CC0-1.0")
    print((Path(folder) / "README.md").read_text(encoding="utf-8"))
    again = invariance.load(folder, features=features())
    print(f"the loaded model predicts the same: {(again.predict_proba(X) == model.predict_proba(X)).all()}")
