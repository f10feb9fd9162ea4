r"""
Which checkpoint counts
=======================

One run of IRMv1, measured at twenty moments. Each selection rule takes one of them. The rule ``training-domain`` takes
the highest validation accuracy, which belongs to a model that relies on colour; ``invariant`` takes the latest moment
at which the training environments cannot be told apart by loss and calibration; ``oracle`` looks at the test
environments, which is not allowed.
"""

import matplotlib.pyplot as plt

from invariance import Spec, execute, select

changes = {
    "data": {"draws": 15_000},
    "recipe": {"epochs": 30},
    "evaluation": {"checkpoints": 20, "train_rows": 1000},
}
history = execute(Spec.of("colored-digits", "irmv1", "small-batch", changes=changes)).run.history

figure, axis = plt.subplots(figsize=(7.5, 4), layout="constrained")
steps = [checkpoint.step for checkpoint in history]
axis.plot(steps, [100 * c.validation.mean for c in history], "C7--", label="validation, training environments")
axis.plot(steps, [100 * c.test.mean for c in history], "C0-", label="test, average")
axis.plot(steps, [100 * c.test.worst for c in history], "C0:", label="test, worst environment")
for rule, marker in {"training-domain": "s", "invariant": "o", "oracle": "*", "last": "^"}.items():
    chosen = select(rule, history)
    axis.plot(chosen.step, 100 * chosen.test.mean, marker, color="C3", markersize=10, label=rule, alpha=0.8)
    print(f"{rule}: after {chosen.step} updates, average {chosen.test.mean:.3f}, worst {chosen.test.worst:.3f}")
axis.set(xlabel="updates", ylabel="accuracy in %", ylim=(0, 100))
axis.legend(frameon=False, ncols=2)
plt.show()
