"""How long a run will take, before it is run: its arithmetic over the speed of this machine."""

import time
import warnings
from functools import cache

import torch
from torch.utils.flop_counter import FlopCounterMode

from invariance.data.base import DataSet, Size
from invariance.experiments.spec import Spec
from invariance.models.base import Architecture
from invariance.recipes.gradient import SAM

EFFICIENCY = 0.6
"""Share of the speed of a matrix product that a training step reaches (benchmarks/step.py)."""
LOADING_SECONDS = 1.0
"""Before the first update."""
CHECKPOINT_SAMPLES = 50_000
"""Samples that are passed through the model at a checkpoint."""


def seconds(spec: Spec) -> float:
    """About how long a run takes on one thread of this machine."""
    size = _size(spec.data)
    passes = 6 if isinstance(spec.recipe.gradient, SAM) else 3  # backward costs two; SAM does everything twice
    samples = passes * size.samples * (spec.recipe.epochs + spec.recipe.debias)
    samples += CHECKPOINT_SAMPLES * spec.evaluation.checkpoints
    samples += spec.evaluation.landscape**2 * 4000
    return LOADING_SECONDS + samples * _forward(spec.model, size.shape) / (EFFICIENCY * _speed())


@cache
def _size(data: DataSet) -> Size:
    return data.size()


@cache
def _forward(model: Architecture, shape: tuple[int, ...]) -> int:
    """Operations of one sample's forward pass, counted by shapes alone: weights cost time and memory."""
    try:
        with torch.device("meta"), warnings.catch_warnings(action="ignore"):
            return _counted(model, shape)
    except (NotImplementedError, RuntimeError):  # a model of another package that needs numbers
        return _counted(model, shape)


def _counted(model: Architecture, shape: tuple[int, ...]) -> int:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.build(shape, 1).eval()(torch.zeros(1, *shape))
    return int(counter.get_total_flops())


@cache
def _speed() -> float:
    """Operations per second in a matrix product of the usual size, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    a, b = torch.zeros(1024, 400), torch.zeros(400, 400)
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - start)
    torch.set_num_threads(threads)
    return 2 * 1024 * 400 * 400 / best
