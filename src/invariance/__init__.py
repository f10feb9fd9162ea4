"""Models that do not rely on what changes between environments.

>>> from invariance import ColoredDigits, IRMv1, MLP, evaluate, recipe, train
>>> benchmark = ColoredDigits(draws=2000).load(seed=0)
>>> model = MLP(width=64).build(benchmark.input_shape, benchmark.family.outputs)
>>> for snapshot in train(model, IRMv1(gamma=1), benchmark.train, recipe("default"), family=benchmark.family):
...     scores = evaluate(snapshot.model, benchmark)

The public names stand in ``__init__.pyi``, which ``make stub`` writes, and are imported when first used: ``import
invariance`` costs nothing.
"""

import os

import lazy_loader

os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
"""Torch puts tensors of 2 MB and more into large pages of Linux, if it reads this before its first tensor: page faults
cost a full batch as much as a quarter of its time. ``0`` leaves them where they are."""

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
