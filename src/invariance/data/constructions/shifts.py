"""Covariate shifts: what else differs between environments than β (Krueger et al., REx, ICML 2021, section 4.1).

One knob p in [0, 1] gives every environment a fraction p_e (:func:`fractions`); 1 is balanced, 0 extreme. By ``Kind``:

- ``class``: p_e of the images with clean label 0 are kept, 1 − p_e of those with 1 (:func:`thinned`);
- ``digit``: p_e of the images in one half of the classes of each label are kept, 1 − p_e of those in the other half;
  images of classes in neither half take no part, in the test either;
- ``colour``: each colour has two shades, and p_e says how often either is drawn (:func:`shaded`); nothing is dropped.

Training and validation environments are shifted alike, before label noise. The test is not: shades are even there, and
halves and classes as they are in the file. REx's code keeps 0.5 of each group for the test: the same shares, of half as
many images. It keeps the first images of a group, we draw which. Shifts of classes and digits keep about half of the
training images, at p = 1 too.
"""

from collections.abc import Sequence
from itertools import product
from typing import Literal

import torch
from torch import Tensor

Kind = Literal["none", "class", "digit", "colour"]
Halves = tuple[tuple[int, ...], tuple[int, ...]]
"""For ``digit``: the classes of which p_e is kept, and those of which 1 − p_e is."""
Looks = tuple[Tensor, Tensor]
"""Every image in colour 0, and in colour 1."""

EVEN = 0.5
"""The test's p_e."""


def fractions(betas: Sequence[float], p: float) -> list[float]:
    """p_e of every environment: 1/(1 + p) for the lowest β, p/(1 + p) for the highest, in equal steps between.

    Steps follow the order of the βs, not their values. Two environments are those of REx; one alone is balanced.
    """
    ranks = [sorted(betas).index(beta) for beta in betas]
    along = [rank / (len(betas) - 1) if len(betas) > 1 else EVEN for rank in ranks]
    return [(1 - a + a * p) / (1 + p) for a in along]


def thinned(t: Tensor, first: Tensor, fraction: float, random: torch.Generator) -> Tensor:
    """Rows, in their order, that keep ``fraction`` of the ``first`` images and 1 − ``fraction`` of the others.

    Either share is taken of both clean labels ``t``, so that only a shift of classes changes their balance.
    """
    order = torch.randperm(len(t), generator=random)
    kept = []
    for label, half in product((False, True), repeat=2):
        group = order[((t == label) & (first == half))[order]]
        share = fraction if half else 1 - fraction
        kept.append(group[: int(share * len(group))])
    return torch.cat(kept).sort().values


def coloured(grey: Tensor) -> Looks:
    """Two channels: grey images [n, 1, h, w] lie in the first or in the second, the other is black."""
    black = torch.zeros_like(grey)
    return torch.cat([grey, black], 1), torch.cat([black, grey], 1)


def shaded(grey: Tensor, fraction: float, random: torch.Generator) -> Looks:
    """Four channels, shades of two colours, of which three are black.

    Colour 0 lies in the first with probability ``fraction``, else in the second; colour 1 in the third with probability
    1 − ``fraction``, else in the fourth.
    """
    rows = torch.arange(len(grey))
    off, on = grey.new_zeros(2, len(grey), 4, *grey.shape[2:])
    for look, channel, share in ((off, 0, fraction), (on, 2, 1 - fraction)):
        other = torch.rand(len(grey), generator=random) >= share
        look[rows, channel + other.long()] = grey.squeeze(1)
    return off, on
