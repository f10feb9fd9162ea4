"""Where the time of a ResNet-18's step goes, and how long the same step takes in plain torch.

ERM on batches of 128 images of 64 pixels from two environments, at two widths. *Plain* is the usual loop over the same
network: gather bytes, divide by 255, cross-entropy, backward pass, torch's Adam; in the ordinary layout and in
channels-last. All take turns, one thread, processor time. The parts are those of torch's profiler, in our step.

Aim: not slower than the faster one of the two.
"""

from collections.abc import Mapping
from typing import cast

import torch
from harness import METHODS, Options, Step, in_turns, show
from images import BATCH, SIZE, training
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.profiler import ProfilerActivity, profile

from invariance.core.inputs import floats
from invariance.models.resnet import Features
from invariance.training.loop import Training

PARTS: Mapping[str, tuple[str, ...]] = {
    "convolutions, forward": ("aten::mkldnn_convolution",),
    "convolutions, backward": ("aten::convolution_backward",),
    "batch normalisation": ("aten::native_batch_norm", "aten::native_batch_norm_backward"),
    "ReLU, sums": ("aten::clamp_min_", "aten::relu_", "aten::threshold_backward", "aten::add", "aten::add_"),
}
"""Parts of a step, and what the profiler calls them."""
PROFILED = 3


def plain(layout: torch.memory_format, batch: int, size: int, width: int) -> Step:
    """A step of the usual loop."""
    run = training(METHODS["erm"], "plain", batch, size, width)
    model, x, y = run.model, cast("torch.Tensor", run.data.x), run.data.y.float()
    cast("Features", model.features).layout = layout
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-5)

    def step() -> None:
        rows = torch.randperm(len(y))[:batch]
        loss = binary_cross_entropy_with_logits(model(floats(x[rows])).squeeze(1), y[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def shares(run: Training) -> dict[str, object]:
    """The share of each part in a step, and of the rest."""
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(PROFILED):
            run.advance()
    times = {event.key: event.self_cpu_time_total for event in profiled.key_averages()}
    whole = sum(times.values())
    found = {part: sum(times.get(name, 0) for name in names) / whole for part, names in PARTS.items()}
    return {**found, "rest": 1 - sum(found.values())}


def main() -> None:
    options = Options.parse(__doc__)
    torch.set_num_threads(1)
    batch, size = (32, 32) if options.quick else (BATCH, SIZE)
    rows: list[dict[str, object]] = []
    for width in (16, 64):
        ours = training(METHODS["erm"], "plain", batch, size, width)
        steps: dict[str, Step] = {"ours": ours.advance}
        steps |= {
            "channels-last": plain(torch.channels_last, batch, size, width),
            "ordinary": plain(torch.contiguous_format, batch, size, width),
        }
        times = in_turns(steps, rounds=2 if options.quick else 5, repeats=1)
        row: dict[str, object] = {"width": width, "ms": times.ms("ours")}
        row |= {f"times plain, {name}": times.ratio("ours", name) for name in steps if name != "ours"}
        rows.append(row | shares(ours))
    note = f"{batch} images of {size} pixels, one thread, processor time. The parts are shares of our step."
    show("A ResNet-18's step", rows, note, options, "image-step")


if __name__ == "__main__":
    main()
