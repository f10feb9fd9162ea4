r"""
The published runs, ours beside printed
=======================================

The runs behind our results come with the package. This reads them, takes the checkpoint that the rule ``invariant``
chooses, and draws Table 4's averages and gaps on Colored-MNIST beside those that the ICLR 2023 paper prints. Nothing is
trained.
"""

import matplotlib.pyplot as plt

from invariance.experiments.published import published_store
from invariance.experiments.stored_runs import StoredRuns
from invariance.studies import STUDIES
from invariance.studies.support.completeness import plans_with_runs
from invariance.studies.support.results import results

with published_store() as store:
    stored = StoredRuns(store)
    plan = plans_with_runs([STUDIES["table-4"]()], stored)["table-4"][0]
    table = results(plan, stored, "invariant")

arms = [arm for arm in table.arms if arm.data == "Colored-MNIST" and table.row(arm)]
figure, axes = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
for axis, metric in zip(axes, ("average", "gap"), strict=True):
    quantities = [table.quantity(arm, metric, "table-4") for arm in arms]
    names = [f"{arm.method} ({quantity.seeds})" for arm, quantity in zip(arms, quantities, strict=True)]
    axis.errorbar([q.mean for q in quantities], names, xerr=[q.std for q in quantities], fmt="oC0", label="ours")
    printed = [(q.printed.mean, name) for q, name in zip(quantities, names, strict=True) if q.printed]
    axis.plot(*zip(*printed, strict=True), "xC3", label="printed")
    axis.set_xlabel({"average": "average accuracy in %", "gap": "gap in points"}[metric])
axes[0].legend(frameon=False)
axes[0].set_title("method (seeds)", loc="left", fontsize=10)
axes[1].set_yticklabels([])
plt.show()
print(f"{len(arms)} methods, scale {plan.scale}")
