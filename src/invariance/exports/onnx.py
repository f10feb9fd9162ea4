"""ONNX, for other languages and runtimes: the file takes the columns of a table as they are."""

from pathlib import Path
from typing import ClassVar, final

from pydantic.dataclasses import dataclass

from invariance.core.atomic import atomic_write
from invariance.core.errors import BadValue
from invariance.core.fields import STRICT
from invariance.exports.base import ExportFormat, Written, agreed
from invariance.exports.exportable import Exportable


@final
@dataclass(frozen=True, config=STRICT)
class Onnx(ExportFormat):
    """A file for any ONNX runtime, checked by ``onnxruntime`` on rows with missing, rare and unknown values."""

    title: ClassVar[str] = "ONNX"
    suffix: ClassVar[str] = ".onnx"
    extra: ClassVar[str] = "onnx"

    def write(self, model: Exportable, path: Path) -> Written:
        try:
            import onnxruntime  # noqa: F401

            from invariance.exports.onnx_graph.graph import build
            from invariance.exports.onnx_graph.probe import difference
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("invariance"):
                raise
            raise BadValue(f"export to ONNX needs {error.name}: pip install 'invariance[onnx]'") from None
        built = build(model)
        found = agreed(difference(built.model, model), model, self.title)
        with atomic_write(path) as part:
            part.write_bytes(built.model.SerializeToString())
        return Written(path, built.inputs, built.outputs, found, built.notes)
