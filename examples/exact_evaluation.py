r"""
Nineteen environments, two numbers
==================================

The accuracy of a fixed model is a straight line in β, so two numbers say all: the accuracy where colour agrees with
the label, and where it does not. Environments that are drawn at random scatter around that line, and the scatter looks
like a gap.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from invariance import MLP, ColoredDigits, evaluate, exact, profile, sampled, train

benchmark = ColoredDigits(draws=5000).load(seed=0)
model = MLP(width=64).build(benchmark.input_shape, benchmark.family.outputs)
method, recipe = profile("env-poe", "short")
*_, last = train(model, method, benchmark.train, recipe, family=benchmark.family)

# %%
# Two passes over the test images, one in each colour, give the exact line.
line = evaluate(last.model, benchmark)
print(f"A₁ = {line.agree:.3f} where colour agrees, A₀ = {line.oppose:.3f} where it does not")
print(f"average {line.mean:.3f}, gap {line.gap:.3f}")

# %%
# The same model, tested as papers do: labels and colours drawn anew in each of the 19 environments, 200 times.
mechanism, family = benchmark.mechanism, benchmark.family
draws = [sampled(last.model, mechanism, family, torch.Generator().manual_seed(seed)) for seed in range(200)]
gaps = 100 * np.array([scores.gap for scores in draws])

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(
    mechanism.betas, [100 * draws[0].by_environment[name] for name in line.by_environment], "o", label="drawn once"
)
left.plot(
    mechanism.betas, [100 * a for a in exact(last.model, mechanism, family).by_environment.values()], label="exact"
)
left.set(xlabel="β", ylabel="accuracy in %", ylim=(50, 100))
left.legend(frameon=False)
right.hist(gaps, bins=25, color="C0", alpha=0.7, label="gap of drawn environments")
right.axvline(100 * line.gap, color="C3", label="exact gap")
right.set(xlabel="gap in points", ylabel="draws")
right.legend(frameon=False)
print(
    f"{len(mechanism)} test images: a gap of {gaps.mean():.1f} points on average if drawn, {100 * line.gap:.1f} exactly"
)
plt.show()
