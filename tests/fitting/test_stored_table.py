"""Rows in a file give the same model as rows in memory."""

import csv
from pathlib import Path

import numpy as np
import pytest

from invariance.core.inputs import StoredRows
from invariance.fitting.stored_table import fits_memory, stored_rows
from invariance.fitting.table import table_task
from invariance.tabular import source as sources
from invariance.tabular.labelled_rows import infer_schema, read
from invariance.tabular.source import TableSource


@pytest.fixture(params=["classes", "numbers"])
def path(request, tmp_path) -> Path:
    """Sites of several sizes, in no order; some rows have no label, or no site."""
    rng = np.random.default_rng(0)
    with (tmp_path / "t.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["a", "b", "site", "label"])
        for i in range(500):
            a, site = rng.normal(), rng.choice(["Lyon", "Bern", "Graz"], p=[0.6, 0.3, 0.1])
            name = ["low", "high", "odd"][int(a > 0) + (i % 7 == 0)]
            label = f"{a + rng.normal():.3f}" if request.param == "numbers" else name
            cells = [f"{a:.3f}", rng.choice(["x", "y"])]
            out.writerow([*cells, "" if i % 50 == 3 else site, "" if i % 40 == 5 else label])
    return tmp_path / "t.csv"


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(sources, "BLOCK_BYTES", 1 << 11)


def test_stored_rows_are_those_in_memory_environment_after_environment(path):
    schema = infer_schema(TableSource.open(path), "label", "site")
    stored, rows = stored_rows(schema), read(schema.source, schema.encoder)
    order = np.argsort(rows.codes, kind="stable")
    assert isinstance(stored.x, StoredRows)
    assert (stored.x.tensor().numpy() == rows.x[order]).all()
    assert (stored.environments == rows.environments[order]).all()
    y = stored.y if stored.classes is None else stored.classes[stored.y]
    assert (y == rows.y[order]).all()
    assert stored.notes == rows.notes
    assert dict(zip(stored.names, stored.counts, strict=True)) == dict(schema.counts)


def test_a_model_of_stored_rows_is_that_of_rows_in_memory(path):
    source = TableSource.open(path)
    tasks = [table_task(source, "label", "site", {}, test=None, seed=0, memory=memory) for memory in (None, 0)]
    assert isinstance(tasks[1].rows.x, StoredRows)
    assert not isinstance(tasks[0].rows.x, StoredRows)
    quick = {"epochs": 3, "batch_size": 64}
    first, second = (t.estimator.set_params(method="rex", recipe=quick, hidden=(4,)).fit_rows(t.rows) for t in tasks)
    x = tasks[0].rows.x
    close = 0.0 if hasattr(first, "classes_") else 1e-5  # the mean target is a sum in another order
    assert first.predict_rows(x) == pytest.approx(second.predict_rows(x), rel=close, abs=close)
    assert first.scores_.by_environment == pytest.approx(second.scores_.by_environment, rel=close, abs=close)


def test_auto_chooses_for_stored_rows_what_it_chooses_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    with (tmp_path / "t.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["a", "cue", "ward", "site", "label"])
        for i in range(600):
            site, y = i % 3, int(rng.random() < 0.5)
            cue = rng.normal() + (1.5 if site else -1.5) * (2 * y - 1)
            out.writerow([f"{rng.normal() + 2 * y:.3f}", f"{cue:.3f}", rng.choice(["x", "y", "z"]), "ABC"[site], y])
    source = TableSource.open(tmp_path / "t.csv")
    tasks = [table_task(source, "label", "site", {}, test=None, seed=0, memory=memory) for memory in (None, 0)]
    first, second = (task.estimator.fit_rows(task.rows).choice_ for task in tasks)
    assert isinstance(tasks[1].rows.x, StoredRows)
    assert first.varying
    assert (first.method, first.varying, first.hidden) == (second.method, second.varying, second.hidden)
    assert first.p_value == pytest.approx(second.p_value)


def test_a_sample_is_in_memory_with_its_labels(path, monkeypatch):
    schema = infer_schema(TableSource.open(path), "label", "site")
    stored = stored_rows(schema)
    some = stored.sample(100)
    assert isinstance(some.x, np.ndarray)
    assert 50 < len(some) < 150
    assert some.classes is None
    assert set(some.y.tolist()) <= set((stored.y if stored.classes is None else stored.classes).tolist())
    assert len(stored.sample(10**6)) == len(stored)
    monkeypatch.setattr("invariance.core.rows.SAMPLE_BYTES", 100 * 4 * stored.x.shape[1])
    assert 50 < len(stored.sample(10**6)) < 150


def test_the_file_goes_away_with_its_rows(path, tmp_path, monkeypatch):
    monkeypatch.setenv("INVARIANCE_CACHE", str(tmp_path / "cache"))
    schema = infer_schema(TableSource.open(path), "label", "site")
    stored = stored_rows(schema)
    assert len(stored) > 0
    assert list((tmp_path / "cache").iterdir()) == []
    assert not fits_memory(schema, 1000)
    assert fits_memory(schema, 10**6)
