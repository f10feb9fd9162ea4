"""The 19 test environments of a mechanism: exact scores from two passes, against sampling every environment.

The reference draws each environment and passes its images through the model, as papers do. The package's own sampled
scores draw labels and colours but need only the two passes of the exact ones. The model is Colored-MNIST's network, the
test pool 10,000 random images. Processor time in one run, one thread, alternating.
"""

import torch
from harness import Options, in_turns, show

from invariance.core.environment import Mechanism
from invariance.core.families import Bernoulli
from invariance.core.seeding import generator
from invariance.evaluation.scores import exact, sampled, score
from invariance.models.mlp import MLP

IMAGES = 10_000


def main() -> None:
    options = Options.parse(__doc__)
    torch.set_num_threads(1)
    grey = torch.rand(IMAGES, 1, 14, 14, generator=generator(0, "images"))
    black = torch.zeros_like(grey)
    t = torch.rand(IMAGES, generator=generator(0, "labels")) < 0.5
    mechanism = Mechanism((torch.cat([grey, black], 1), torch.cat([black, grey], 1)), t, alpha=0.25)
    model = MLP().build((2, 14, 14), 1)
    draw = generator(0, "noise")

    def drawn() -> object:
        environments = [mechanism.environment(beta, draw) for beta in mechanism.betas]
        return score(model, environments, Bernoulli())

    times = in_turns(
        {
            "exact": lambda: exact(model, mechanism, Bernoulli()),
            "sampled": lambda: sampled(model, mechanism, Bernoulli(), draw),
            "19 environments": drawn,
        },
        rounds=2 if options.quick else 7,
        repeats=1,
    )
    rows = [{"method": name, "ms": times.ms(name), "times exact": times.ratio(name, "exact")} for name in times.seconds]
    note = "Aim: sampling 19 environments takes at least 8 times as long as exact scores."
    show("19 test environments, 10,000 images", rows, note, options, "evaluation")


if __name__ == "__main__":
    main()
