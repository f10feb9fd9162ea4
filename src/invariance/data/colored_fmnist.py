"""Colored-FMNIST."""

from typing import ClassVar, final

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor

from invariance.core.fields import STRICT
from invariance.data.constructions.colored_idx import ColoredIDX
from invariance.data.constructions.shifts import Halves
from invariance.data.formats.downloads import File
from invariance.data.formats.idx import published
from invariance.models.mlp import MLP

FOOTWEAR = (5, 7, 9)
BAG = 8


@final
@dataclass(frozen=True, config=STRICT)
class ColoredFMNIST(ColoredIDX):
    """Fashion-MNIST without bags, coloured; label: footwear against clothing (Ahuja et al. 2020).

    Classes are 1 : 2, so a constant predictor scores 58.3 %. Images are rendered as in Colored-MNIST. Without bags,
    44,968 images train and 9,032 validate, where Ahuja et al. train on all 54,000.

    A shift of digits, which no paper defines here, drops sneakers and weighs T-shirts, trousers, pullovers and sandals
    against dresses, coats, shirts and boots. Classes are then 1 : 3, and a constant predictor scores 62.5 %.
    """

    title: ClassVar[str] = "Colored-FMNIST"
    about: ClassVar[str] = "Fashion-MNIST, coloured; footwear against clothing"
    citation: ClassVar[str] = "Xiao et al., Fashion-MNIST, 2017; labels of Ahuja et al., IRM games, ICML 2020"
    licence: ClassVar[str] = "MIT"
    architecture: ClassVar[MLP] = MLP()
    halves: ClassVar[Halves] = ((0, 1, 2, 5), (3, 4, 6, 9))
    kept_share: ClassVar[float] = 0.9
    files: ClassVar[tuple[File, ...]] = published(
        "fashion-mnist",
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ),
        (
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    )

    def keep(self, labels: Tensor) -> Tensor:
        return labels != BAG

    def binary(self, labels: Tensor) -> Tensor:
        return torch.isin(labels, torch.tensor(FOOTWEAR, dtype=labels.dtype))
