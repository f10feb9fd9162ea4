"""TorchScript, for C++ and for torch without this package."""

import warnings
from pathlib import Path
from typing import ClassVar, final

import torch
from pydantic.dataclasses import dataclass

from invariance.core.atomic import atomic_write
from invariance.core.fields import STRICT
from invariance.exports.base import ExportFormat, FileInput, Written, agreed
from invariance.exports.exportable import Exportable

PROBE_ROWS = 7


@final
@dataclass(frozen=True, config=STRICT)
class TorchScript(ExportFormat):
    """A traced module that ``torch.jit.load`` opens. It takes numbers alone: columns of a table must be encoded."""

    title: ClassVar[str] = "TorchScript"
    suffix: ClassVar[str] = ".pt"

    def write(self, model: Exportable, path: Path) -> Written:
        x = model.probe(PROBE_ROWS)
        with warnings.catch_warnings(), torch.no_grad(), atomic_write(path) as part:
            warnings.simplefilter(
                "ignore"
            )  # torch advises torch.export, and warns where a trace might differ: see below
            torch.jit.save(torch.jit.trace(model.answers, x[:2]), str(part))
            answers = torch.jit.load(str(part))(x)
            difference = agreed(float((answers - model.predicted(x)).abs().max()), model, self.title)
        kind, rows = str(model.dtype).removeprefix("torch."), f"[n, {', '.join(map(str, model.shape))}]"
        about = "images in [0, 1]" if len(model.shape) == 3 else "numbers"
        notes: tuple[str, ...] = ()
        if model.encoder is not None:
            about = f"encoded columns: {', '.join(model.encoder.features[:4])}, …"
            notes = ("TorchScript takes no text: encode columns by the estimator's encoder_, or export to onnx",)
        gives = "numbers" if model.classes is None else f"probabilities of {', '.join(map(str, model.classes))}"
        outputs = (FileInput("", "float64 [n, K]", gives),)
        return Written(path, (FileInput("x", f"{kind} {rows}", about),), outputs, difference, notes)
