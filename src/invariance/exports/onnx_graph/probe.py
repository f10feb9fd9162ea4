"""Rows to compare a file with its model on: usual values, missing ones, rare and unknown categories."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import pyarrow as pa
import torch
from numpy.typing import NDArray

from invariance.estimators.network import Standard
from invariance.exports.exportable import Exportable
from invariance.tabular.columns import YEAR, CategoricalColumn, Column, DateColumn, NumericColumn, VectorColumn
from invariance.tabular.dates import TIME_ONLY

PROBE_ROWS = 97
MISSING_EVERY = 7
"""One cell of so many is missing; prime to the number of rows and to most numbers of categories."""


class ProbeColumn(NamedTuple):
    """Cells as the file takes them, and as the encoder reads them."""

    raw: Any
    cells: pa.Array | None


def difference(file: onnx.ModelProto, model: Exportable) -> float:
    """The largest difference between the predictions of the file and those of the model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(file.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed, x = _rows(model)
    output = "prediction" if model.classes is None else "probability"
    (answers,) = session.run([output], feed)
    expected = model.predicted(x).numpy()
    return float(np.abs(answers.reshape(expected.shape) - expected).max())


def _rows(model: Exportable) -> tuple[dict[str, Any], torch.Tensor]:
    """What the file takes, and the same rows as the model's numbers."""
    if model.encoder is None:
        rows = model.probe(PROBE_ROWS)
        return {"x": rows.numpy()}, rows
    standard = next(part for part in model.answers.modules() if isinstance(part, Standard))
    mean, scale = (standard.get_buffer(name).double().numpy() for name in ("mean", "scale"))
    dtype = np.float64 if model.dtype == torch.float64 else np.float32
    x: NDArray[Any] = np.empty((PROBE_ROWS, len(model.encoder.features)), dtype)
    feed: dict[str, Any] = {}
    for i, (column, place) in enumerate(model.encoder.places):
        probe = _column(column, np.random.default_rng(i), mean[place], scale[place], dtype)
        feed[column.name] = probe.raw
        if probe.cells is None:
            x[:, place] = probe.raw
        else:
            column.encode(probe.cells, x[:, place])
    return feed, torch.from_numpy(x)


def _column(column: Column, random: np.random.Generator, mean: Any, scale: Any, dtype: Any) -> ProbeColumn:
    missing = np.arange(PROBE_ROWS) % MISSING_EVERY == 0
    match column:
        case NumericColumn():
            values = (mean[0] + scale[0] * random.standard_normal(PROBE_ROWS)).astype(dtype)
            values = np.where(missing, dtype(np.nan), values)
            return ProbeColumn(values, pa.array(values))
        case CategoricalColumn():
            names = [*column.levels, "a category that nobody has seen", ""]
            texts = [names[i % len(names)] for i in range(PROBE_ROWS)]
            return ProbeColumn(np.array(texts, object), pa.array(texts))
        case DateColumn():
            return _dates(column, random, missing)
        case VectorColumn():
            values = (mean + scale * random.standard_normal((PROBE_ROWS, column.width))).astype(dtype)
            values[missing, 0] = np.nan
            return ProbeColumn(values, pa.array(list(values)))
        case _:
            return ProbeColumn(random.standard_normal((PROBE_ROWS, len(column.features))).astype(dtype), None)


def _dates(column: DateColumn, random: np.random.Generator, missing: Any) -> ProbeColumn:
    time_only = column.format == TIME_ONLY
    moments = random.uniform(0, 86_340, PROBE_ROWS)
    moments = (moments if time_only else column.origin + YEAR * random.standard_normal(PROBE_ROWS)) // 60 * 60
    written = column.format if time_only else f"{column.format} %H:%M:%S"
    texts = [
        None if gone else datetime.fromtimestamp(moment, UTC).strftime(written)
        for moment, gone in zip(moments, missing, strict=True)
    ]
    return ProbeColumn(np.where(missing, np.nan, moments), pa.array(texts, pa.string()))
