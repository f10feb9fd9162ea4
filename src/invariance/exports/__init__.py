"""Trained models as files of other programs: one file per format; the folder is the registry."""

from pathlib import Path
from typing import Any

from invariance.core.catalogue import Catalogue
from invariance.core.model_folder import load
from invariance.exports.base import ExportFormat, Written
from invariance.exports.exportable import exportable

EXPORTS: Catalogue[ExportFormat] = Catalogue("export format", __name__, ExportFormat)


def export(model: Any, path: Path | str, *, format: str = "onnx") -> Written:  # noqa: A002
    """Write a trained model as a file of another program, and return what the file takes.

    ``model`` is a fitted estimator, a :class:`TrainedRun`, or the folder of one of them. The file predicts what the
    model predicts within 1e-5, which is checked before this returns.
    """
    form = EXPORTS.create(format)
    path = form.checked(Path(path))
    return form.write(exportable(load(model) if isinstance(model, str | Path) else model), path)
