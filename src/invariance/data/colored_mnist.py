"""Colored-MNIST."""

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


@final
@dataclass(frozen=True, config=STRICT)
class ColoredMNIST(ColoredIDX):
    """MNIST, coloured; label: digit < 5. A colour-blind model reaches 75 % less its own mistakes.

    A shift of digits drops 0 and 5 and weighs 1, 2, 6 and 7 against 3, 4, 8 and 9.
    """

    title: ClassVar[str] = "Colored-MNIST"
    about: ClassVar[str] = "MNIST, coloured; digits below five against the rest"
    citation: ClassVar[str] = "LeCun et al., 1998; coloured by Arjovsky et al., Invariant risk minimization, 2019"
    licence: ClassVar[str] = "free for research by common practice"
    architecture: ClassVar[MLP] = MLP()
    halves: ClassVar[Halves] = ((1, 2, 6, 7), (3, 4, 8, 9))
    files: ClassVar[tuple[File, ...]] = published(
        "mnist",
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        (
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    )

    def keep(self, labels: Tensor) -> Tensor:
        return torch.ones_like(labels, dtype=torch.bool)

    def binary(self, labels: Tensor) -> Tensor:
        return labels < 5
