"""Trackers write what a run has measured, each by its own library, to disk; a library reads it back."""

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from invariance.core.errors import BadValue, UnknownName
from invariance.experiments.run import Run, execute
from invariance.experiments.spec import Spec
from invariance.experiments.trackers import TRACKERS, track, tracker
from invariance.experiments.trackers.base import metrics

CHANGES = {"recipe": {"epochs": 4, "batch_size": 50}, "data": {"draws": 200}, "model": {"width": 8}}


@pytest.fixture(scope="module")
def run() -> Run:
    return execute(Spec.of("colored-digits", "irmv1", "default", 0, CHANGES)).run


def expected(run: Run, name: str) -> list[tuple[int, float]]:
    return [(c.step, metrics(c)[name]) for c in run.history]


def same(found: list[tuple[int, float]], wanted: list[tuple[int, float]]) -> bool:
    return len(wanted) > 3 and found == [(step, pytest.approx(value, rel=1e-6)) for step, value in wanted]


def test_a_checkpoint_gives_its_scores_and_diagnostics(run):
    names = metrics(run.history[-1]).keys()
    assert {"loss", "test/worst", "train/mean", "validation/risk", "penalty", "risk/β=0.1"} <= names


def test_tensorboard(run, tmp_path):
    track(tracker("tensorboard", tmp_path), run)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (folder,) = (tmp_path / "tensorboard").iterdir()
    assert folder.name.startswith("colored-digits-irmv1-default-seed0-")
    events = EventAccumulator(str(folder)).Reload()
    for name in ("test/worst", "penalty"):
        assert same([(e.step, e.value) for e in events.Scalars(name)], expected(run, name))
    assert "irmv1" in str(events.Tensors("spec/text_summary"))


def test_mlflow(run, tmp_path):
    track(tracker("mlflow", tmp_path), run)
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=(tmp_path / "mlflow").as_uri())
    (found,) = client.search_runs([client.get_experiment_by_name("invariance").experiment_id])
    assert found.info.status == "FINISHED"
    assert found.data.tags["status"] == run.status
    assert found.data.params["seed"] == "0"
    history = client.get_metric_history(found.info.run_id, "risk/beta_0.1")
    assert same(sorted((m.step, m.value) for m in history), expected(run, "risk/β=0.1"))


def records(file: Path) -> Iterator[bytes]:
    """The records of an offline file: a log in blocks of 32 KiB, whose records may go on in the next block."""
    content, place, parts = file.read_bytes(), 7, b""
    while place + 7 <= len(content):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", content, place)
        parts += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


def worst_of_wandb(folder: Path) -> list[tuple[int, float]]:
    """The steps and worst accuracies of the one offline run in a folder."""
    from wandb.proto.wandb_internal_pb2 import Record

    (file,) = (folder / "wandb").glob("wandb/offline-run-*/*.wandb")
    rows = []
    for data in records(file):
        record = Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            rows.append({".".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.history.item})
    return [(row["_step"], row["test/worst"]) for row in rows]


@pytest.mark.slow
def test_wandb_offline(run, tmp_path):
    track(tracker("wandb", tmp_path), run)
    import wandb

    wandb.teardown()  # as at the end of the process: until then the service may not have written all rows
    assert same(worst_of_wandb(tmp_path), expected(run, "test/worst"))


def worst_of_tensorboard(folder: Path) -> list[tuple[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (events,) = (folder / "tensorboard").iterdir()
    return [(e.step, e.value) for e in EventAccumulator(str(events)).Reload().Scalars("test/worst")]


@pytest.mark.parametrize(
    ("name", "read"),
    [pytest.param("tensorboard", worst_of_tensorboard, marks=pytest.mark.slow), ("wandb", worst_of_wandb)],
)
def test_train_tracks_a_run_as_it_goes(run, tmp_path, name, read):
    """By the installed command: what it leaves on disk when it has ended."""
    changes = [f"{section}.{field}={value}" for section, fields in CHANGES.items() for field, value in fields.items()]
    command = [Path(sys.executable).with_name("invariance"), "train", "colored-digits", "irmv1", "--track", name]
    command += [word for change in changes for word in ("--set", change)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr  # so few updates may collapse
    assert f"tracked: {TRACKERS[name].viewer.partition('{')[0]}" in done.stderr
    assert same(read(tmp_path / "tracked"), expected(run, "test/worst"))


@pytest.mark.parametrize("name", TRACKERS.classes)
def test_a_missing_package_is_named_with_its_extra(name, monkeypatch):
    for module in [module for module in sys.modules if module.startswith("torch.utils.tensorboard")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(BadValue, match=rf"needs {name}: pip install 'invariance\[{name}\]'"):
        tracker(name)


def test_an_unknown_tracker_is_refused():
    with pytest.raises(UnknownName, match="'tensorboard'"):
        tracker("tensorbord")
