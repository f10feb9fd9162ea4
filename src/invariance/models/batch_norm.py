"""Batch normalisation: over all ranks, running statistics updated once per step, recalibrated for averaged weights."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from invariance.core import ranks
from invariance.core.inputs import Inputs, floats
from invariance.models.base import Model, batch_norms

Loss = Callable[[], Tensor]
BatchNorm = nn.modules.batchnorm._BatchNorm


class RanksBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch normalisation that in training normalises by the rows of all ranks, on any device."""

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002 - torch's name
        """Any number of dimensions."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalised by the batch in training, by the running statistics else."""
        if not self.training or ranks.count() == 1:
            return super().forward(x)
        dims = (0, *range(2, x.ndim))
        shape = (1, -1, *[1] * (x.ndim - 2))
        values = x.to(torch.promote_types(x.dtype, torch.float32))
        rows = ranks.total(values.new_tensor(x.numel() / self.num_features))
        mean = ranks.total(values.sum(dims)) / rows
        values = values - mean.view(shape)
        variance = ranks.total(values.square().sum(dims)) / rows
        if self.track_running_stats:
            self._track(mean.detach(), variance.detach() * rows / (rows - 1))
        values = values * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            values = values * self.weight.view(shape) + self.bias.view(shape)
        return values.to(x.dtype)

    def _track(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics; without a momentum they are those of all batches so far."""
        assert self.running_mean is not None  # noqa: S101 - statistics are tracked
        assert self.running_var is not None  # noqa: S101
        assert self.num_batches_tracked is not None  # noqa: S101
        self.num_batches_tracked.add_(1)
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance, share)


def over_ranks(model: Model) -> Model:
    """The same model, whose batch normalisation is over all ranks where there are several."""
    for layer in batch_norms(model) if ranks.count() > 1 else ():
        layer.__class__ = RanksBatchNorm
    return model


@contextmanager
def running_stats_updated_once(norms: Sequence[BatchNorm]) -> Iterator[Callable[[Loss], Loss]]:
    """A step of a model with these layers, in which only the first evaluation of a loss updates the running statistics.

    Gives a wrapper for the step's losses. Further passes, around the weights or by other players, normalise by the
    batch as well, and leave the running statistics as they are.
    """
    layers = [layer for layer in norms if layer.track_running_stats]

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
        model.head(model.features(floats(x, model.device)))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.train(was_training)
