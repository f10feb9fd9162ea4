r"""
When ERM is enough
==================

Two tables that look alike. In the first all columns mean the same at all sites, though sites differ in their inputs;
in the second one column does not. ``method="auto"`` compares the effects of columns between sites: it keeps ERM for the
first and takes an invariant method for the second.
"""

import matplotlib.pyplot as plt
import numpy as np

from invariance import InvariantClassifier

rng = np.random.default_rng(0)
SITES = ["Lyon", "Bern", "Graz", "Gent"]


def table(rows: int, slopes: dict[str, float], site: str) -> tuple[np.ndarray, np.ndarray]:
    """Age and a blood value, shifted from site to site, and a column whose slope is the site's."""
    y = rng.random(rows) < 0.5
    shift = 0.3 * SITES.index(site) if site in SITES else 1.5
    causes = rng.normal(size=(rows, 2)) + 0.8 * y[:, None] + [shift, 0]
    return np.column_stack([causes, slopes[site] * (2 * y - 1) + rng.normal(size=rows)]), y


TABLES = {
    "all columns mean the same": dict.fromkeys([*SITES, "new"], 0.8),
    "one column does not": {"Lyon": 1.6, "Bern": 1.2, "Graz": 0.7, "Gent": 0.3, "new": -1.0},
}
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for axis, (title, slopes) in zip(axes, TABLES.items(), strict=True):
    parts = [table(600, slopes, site) for site in SITES]
    X, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    site = np.repeat(SITES, 600)
    X_new, y_new = table(600, slopes, "new")
    auto = InvariantClassifier(hidden=()).fit(X, y, environments=site)
    erm = InvariantClassifier("erm", hidden=()).fit(X, y, environments=site)
    print(f"{title}: {auto.choice_.method_name}, because {auto.choice_.reason}")
    bars = {"ERM, known": erm.score(X, y), "ERM, new": erm.score(X_new, y_new)}
    bars |= {"auto, known": auto.score(X, y), "auto, new": auto.score(X_new, y_new)}
    axis.bar(list(bars), [100 * accuracy for accuracy in bars.values()], color=["C3", "C3", "C0", "C0"], alpha=0.8)
    axis.set_title(f"{title}: auto = {auto.choice_.method_name}", fontsize=10)
    axis.tick_params("x", labelrotation=20)
axes[0].set_ylabel("accuracy in %")
plt.show()
