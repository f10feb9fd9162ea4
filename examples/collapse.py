r"""
How a run collapses
===================

A model with constant outputs satisfies the penalty. With a weight of 10⁶, a loss that is divided by it and a learning
rate that stays high, Fishr gets there soon after the penalty sets in: its accuracy falls to chance, and the run is
counted as collapsed. The recipe ``two-phase`` gives the penalty less weight and lets the learning rate fall.
"""

import matplotlib.pyplot as plt

from invariance import Spec, execute

RECIPES = {"small-batch": {"epochs": 40, "lr": 2e-2}, "two-phase": {}}

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for colour, (recipe, changes) in zip(("C3", "C0"), RECIPES.items(), strict=True):
    measured = {"checkpoints": 14, "train_rows": 2000}
    spec = Spec.of(
        "colored-digits",
        "fishr",
        recipe,
        changes={"data": {"draws": 10_000}, "recipe": changes, "evaluation": measured},
    )
    run = execute(spec).run
    share = [checkpoint.step / run.history[-1].step for checkpoint in run.history]
    left.plot(share, [100 * checkpoint.test.mean for checkpoint in run.history], f"{colour}.-", label=recipe)
    right.plot(share, [checkpoint.diagnostics.logit_scale for checkpoint in run.history], f"{colour}.-", label=recipe)
    print(f"{recipe}: γ = {spec.method.gamma:g}, {run.status}, average {run.history[-1].test.mean:.3f}")

left.set(xlabel="share of the run", ylabel="average accuracy in %", ylim=(40, 80))
right.set(xlabel="share of the run", ylabel="standard deviation of the outputs")
left.legend(frameon=False)
plt.show()
