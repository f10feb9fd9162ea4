r"""
Four methods over all test environments
=======================================

Handwritten digits are coloured. In both training environments colour predicts the label better than shape does: it
contradicts the label in a share β of 0.1 and 0.2. Here β goes from 0.05 to 0.95. ERM, the ordinary model, follows
colour down. REx and Env-PoE stay nearly level. GrayScale cannot see colour and shows what is left to gain.
"""

import matplotlib.pyplot as plt

from invariance import Spec, execute

STYLES = {"erm": "C3-", "rex": "C0-", "env-poe": "C2-", "grayscale": "C7:"}

# %%
# A ``Spec`` says everything that decides a run: data set, method, recipe and seed. ``execute`` makes the run and
# measures it at several checkpoints; ``test`` holds the accuracy at every β, computed exactly.
figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
for name, style in STYLES.items():
    spec = Spec.of(
        "colored-digits", name, "default", seed=0, changes={"data": {"draws": 12_000}, "evaluation": {"checkpoints": 1}}
    )
    scores = execute(spec).run.history[-1].test
    beta = [float(environment.removeprefix("β=")) for environment in scores.by_environment]
    axis.plot(beta, [100 * accuracy for accuracy in scores.by_environment.values()], style, label=spec.method.title)
    print(f"{spec.method.title}: average {scores.mean:.3f}, worst {scores.worst:.3f}, gap {scores.gap:.3f}")

axis.axvspan(0.1, 0.2, color="grey", alpha=0.2, linewidth=0, label="training environments")
axis.set(xlabel="β: how often colour contradicts the label", ylabel="accuracy in %", ylim=(0, 100))
axis.legend(frameon=False)
plt.show()
