"""The running statistics of batch normalisation: updated once per step, and recalibrated for averaged weights."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from invariance.core.inputs import Inputs, floats
from invariance.models.base import Model, batch_norms

Loss = Callable[[], Tensor]


@contextmanager
def running_stats_updated_once(model: Model) -> Iterator[Callable[[Loss], Loss]]:
    """A step, in which only the first evaluation of a loss updates the running statistics.

    Gives a wrapper for the step's losses. Further passes, around the weights or by other players, normalise by the
    batch as well, and leave the running statistics as they are.
    """
    layers = [layer for layer in batch_norms(model) if layer.track_running_stats]

    def track(on: bool) -> None:
        for layer in layers:
            layer.track_running_stats = on

    def wrapped(loss: Loss) -> Loss:
        def evaluated() -> Tensor:
            value = loss()
            track(False)
            return value

        return evaluated

    try:
        yield wrapped
    finally:
        track(True)


@torch.no_grad()
def recalibrate(model: Model, batches: Iterable[Inputs]) -> None:
    """Set running statistics to the mean of those of some batches at the present weights, e.g. averaged ones."""
    layers = [layer for layer in batch_norms(model) if layer.track_running_stats]
    momenta = [layer.momentum for layer in layers]
    was_training = model.training
    model.eval()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
        layer.train()
    for x in batches if layers else ():
        model.head(model.features(floats(x)))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.train(was_training)
