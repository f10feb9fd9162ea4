"""Exported files predict what the model predicts, from the columns as they are."""

import json
import math
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from torch import nn

import invariance
from invariance import InvariantClassifier, InvariantRegressor, export
from invariance.core.errors import BadValue
from invariance.experiments.run import execute
from invariance.experiments.saved import save
from invariance.experiments.spec import Spec
from invariance.exports import EXPORTS
from invariance.methods import METHODS
from invariance.methods.subset_erm import SubsetERM

onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'invariance[onnx]'")

ROWS = 120


@pytest.fixture(scope="module")
def patients() -> pd.DataFrame:
    """A table with a column of every kind but free text, gaps in each, and a rare category."""
    rng = np.random.default_rng(0)
    visit = pd.Timestamp("2023-05-01") + pd.to_timedelta(rng.integers(0, 700, ROWS) * 5, unit="h")
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 9, ROWS),
            "crp": rng.lognormal(size=ROWS),
            "sex": rng.choice(["f", "m"], ROWS),
            "ward": rng.choice(["north", "south", "été"], ROWS),
            "visit": visit.strftime("%d.%m.%Y %H:%M"),
        }
    )
    frame.loc[::9, "crp"] = np.nan
    frame.loc[::11, "ward"] = None
    frame.loc[::13, "visit"] = None
    return frame


@pytest.fixture(scope="module")
def sites() -> np.ndarray:
    return np.arange(ROWS) % 3


def feed(session, frame: pd.DataFrame, dtype=np.float32) -> dict[str, np.ndarray]:
    """The columns of a frame, by the types that the file states."""
    taken = {}
    for column in session.get_inputs():
        values = frame[column.name]
        if column.type == "tensor(string)":
            taken[column.name] = values.fillna("").to_numpy(dtype=object)
        elif column.name == "visit":
            moments = pd.to_datetime(values, format="%d.%m.%Y %H:%M")
            taken[column.name] = ((moments - pd.Timestamp("1970-01-01")) / pd.Timedelta(seconds=1)).to_numpy()
        else:
            taken[column.name] = values.to_numpy(dtype)
    return taken


def session(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def test_a_file_takes_the_raw_columns_of_a_table(patients, sites, tmp_path):
    sick = np.where(patients["age"] > 50, "yes", "no")
    model = InvariantClassifier("rex", hidden=(8,)).fit(patients, sick, environments=sites)
    written = export(model, tmp_path / "model.onnx")
    opened = session(written.path)
    assert [each.name for each in opened.get_inputs()] == list(patients.columns)
    prediction, probability = opened.run(None, feed(opened, patients))
    np.testing.assert_allclose(probability, model.predict_proba(patients), rtol=0, atol=1e-5)
    assert prediction.tolist() == model.predict(patients).tolist()
    assert json.loads(opened.get_modelmeta().custom_metadata_map["classes"]) == ["no", "yes"]


def test_values_that_training_has_not_seen_are_read_as_the_model_reads_them(patients, sites, tmp_path):
    model = InvariantClassifier("erm").fit(patients, patients["age"] > 50, environments=sites)
    opened = session(export(model, tmp_path / "model.onnx").path)
    odd = patients.head(4).assign(
        age=[np.nan, np.inf, -1e30, 0.0], sex=["x", None, "f", "F"], visit=[None, "01.01.1999 00:01", None, None]
    )
    probability = opened.run(["probability"], feed(opened, odd))[0]
    with pytest.warns(UserWarning, match="'age': 1 cell with no finite number"):
        expected = model.predict_proba(odd)
    np.testing.assert_allclose(probability, expected, rtol=0, atol=1e-5)


def test_numbers_are_predicted_in_their_units(patients, sites, tmp_path):
    model = InvariantRegressor("irmv1").fit(patients, 1000 * patients["age"], environments=sites)
    opened = session(export(model, tmp_path / "model.onnx").path)
    (prediction,) = opened.run(None, feed(opened, patients))
    np.testing.assert_allclose(prediction, model.predict(patients), rtol=0, atol=1e-5 * model.target_scale_)


def test_a_frame_of_double_precision_stays_so(sites, tmp_path):
    frame = pd.DataFrame(np.random.default_rng(1).normal(size=(ROWS, 3)), columns=["a", "b", "linear"])
    model = InvariantClassifier("erm").fit(frame, np.arange(ROWS) % 4, environments=sites)
    opened = session(export(model, tmp_path / "model.onnx").path)
    probability = opened.run(["probability"], feed(opened, frame, np.float64))[0]
    np.testing.assert_allclose(probability, model.predict_proba(frame), rtol=0, atol=1e-12)


def test_words_cannot_be_hashed_there_and_a_note_says_so(sites, tmp_path):
    rng = np.random.default_rng(2)
    words = ["fever", "cough", "no", "pain", "since", "monday", "tuesday", "left", "right", "knee", "severe"]
    notes = [" ".join(rng.choice(words, 8)) for _ in range(ROWS)]
    frame = pd.DataFrame({"age": rng.normal(size=ROWS), "notes": notes})
    model = InvariantClassifier("erm").fit(frame, ["fever" in text for text in notes], environments=sites)
    written = export(model, tmp_path / "model.onnx")
    assert "notes" in written.notes[0]
    assert "cannot hash words" in written.notes[0]
    column = model.encoder_.columns[1]
    hashed = np.empty((ROWS, len(column.features)), np.float32)
    column.encode(pa.array(notes), hashed)
    taken = {"age": frame["age"].to_numpy(np.float32), "notes": hashed}
    probability = session(written.path).run(["probability"], taken)[0]
    np.testing.assert_allclose(probability, model.predict_proba(frame), rtol=0, atol=1e-5)


@pytest.mark.parametrize("method", [name for name, cls in METHODS.classes.items() if not cls.oracle])
def test_every_method_can_be_exported(method, sites, tmp_path):
    x = np.random.default_rng(3).normal(size=(ROWS, 4)).astype(np.float32)
    model = InvariantClassifier(method, hidden=(8,), recipe={"epochs": 2}).fit(x, x[:, 0] > 0, environments=sites)
    probability = session(export(model, tmp_path / "model.onnx").path).run(["probability"], {"x": x})[0]
    np.testing.assert_allclose(probability, model.predict_proba(x), rtol=0, atol=1e-5)


@pytest.mark.parametrize("shape", [(4,), (3, 8, 8)], ids=["columns", "channels"])
def test_inputs_that_subset_erm_leaves_out_are_left_out_of_the_file(shape, sites, tmp_path):
    x = np.random.default_rng(6).uniform(size=(ROWS, *shape)).astype(np.float32)
    features = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 8), nn.Tanh())
    model = InvariantClassifier(SubsetERM(without=(0, 2)), features=features, recipe={"epochs": 1})
    model.fit(x, x.reshape(ROWS, -1).mean(1) > 0.5, environments=sites)
    opened = session(export(model, tmp_path / "model.onnx").path)
    probability = opened.run(["probability"], {"x": x})[0]
    np.testing.assert_allclose(probability, model.predict_proba(x), rtol=0, atol=1e-5)
    x[:, [0, 2]] = np.inf  # zero times this would be no number
    np.testing.assert_array_equal(opened.run(["probability"], {"x": x})[0], probability)


def test_torchscript_takes_numbers_and_says_so(patients, sites, tmp_path):
    model = InvariantClassifier("rex").fit(patients, patients["age"] > 50, environments=sites)
    written = export(model, tmp_path / "model.pt", format="torchscript")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        opened = torch.jit.load(written.path)
    x = torch.from_numpy(invariance.TableEncoder().fit(patients).transform(patients).astype(np.float32))
    np.testing.assert_allclose(opened(x).numpy(), model.predict_proba(patients), rtol=0, atol=1e-5)
    assert "takes no text" in written.notes[0]


@pytest.mark.parametrize("form", EXPORTS.classes)
def test_a_module_of_ones_own_and_images(form, sites, tmp_path):
    x = np.random.default_rng(4).uniform(size=(ROWS, 1, 8, 8)).astype(np.float32)
    conv = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten())
    model = InvariantClassifier("erm", features=conv, recipe={"epochs": 1}).fit(
        x, x[:, 0, 0, 0] > 0.5, environments=sites
    )
    written = export(model, tmp_path / f"model{EXPORTS[form].suffix}", format=form)
    assert written.difference <= 1e-5
    assert written.inputs[0].type == "float32 [n, 1, 8, 8]"


class Recurrent(nn.Module):
    """A module with an operation that is not known to the export."""

    def __init__(self):
        super().__init__()
        self.inner = nn.GRU(1, 5, batch_first=True)

    def forward(self, x):
        return self.inner(x.unsqueeze(-1))[0][:, -1]


def test_an_unknown_operation_is_named(sites, tmp_path):
    x = np.random.default_rng(5).normal(size=(ROWS, 4)).astype(np.float32)
    model = InvariantClassifier("erm", features=Recurrent(), recipe={"epochs": 1})
    model.fit(x, x[:, 0] > 0, environments=sites)
    with pytest.raises(BadValue, match="torchscript"):
        export(model, tmp_path / "model.onnx")
    assert export(model, tmp_path / "model.pt", format="torchscript").difference <= 1e-5


@pytest.mark.parametrize("name", ["mlp", "linear", "resnet"])
def test_a_run_is_exported_with_its_architecture(name, tmp_path):
    fields = {"resnet": {"width": 2, "norm": "group"}, "mlp": {"width": 8}, "linear": {}}[name]
    changes = {"recipe": {"epochs": 1}, "data": {"draws": 200}, "model": {"name": name, **fields}}
    executed = execute(Spec.of("colored-digits", "irmv1", "default", 0, changes))
    save(executed, tmp_path / "run")
    opened = session(export(tmp_path / "run", tmp_path / "run.onnx").path)
    x = executed.benchmark.train[0].x[:50]
    answers = opened.run(["probability"], {"x": x.numpy()})[0]
    expected = torch.sigmoid(executed.model(x).double()).detach().numpy()
    np.testing.assert_allclose(answers[:, 1:], expected, rtol=0, atol=1e-5)


def test_what_cannot_be_exported_is_refused_in_one_line(tmp_path):
    with pytest.raises(BadValue, match=r"give a fitted estimator"):
        export(InvariantClassifier(), tmp_path / "model.onnx")
    with pytest.raises(BadValue, match=r"called \*\.onnx"):
        export(InvariantClassifier(), tmp_path / "model.bin")
    with pytest.raises(BadValue, match="no folder"):
        export(InvariantClassifier(), tmp_path / "nowhere" / "model.onnx")
    with pytest.raises(invariance.UnknownName, match="onnx"):
        export(InvariantClassifier(), tmp_path / "model.onnx", format="onyx")
    assert not list(tmp_path.iterdir())
